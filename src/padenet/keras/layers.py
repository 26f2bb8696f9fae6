"""The layers ``PAU`` and ``RPAU``: weights, starting coefficients, configuration."""

from typing import Any

import numpy as np

from padenet.core import Spec, require
from padenet.core.fitting import check_degrees
from padenet.core.forms import check_groups, check_spec
from padenet.core.initial import (
    Init,
    Start,
    count_groups,
    read_start,
    spread,
    starting_coefficients,
)
from padenet.keras.functional import apply

keras = require("keras", "keras")

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="padenet")
class PAU(keras.layers.Layer):  # type: ignore[misc, name-defined]
    r"""Padé activation unit: ``x -> P(x) / Q(x)`` with learnable coefficients.

        P(x) = a_0 + a_1 x + ... + a_m x^m
        Q(x) = q + |b_1 x + ... + b_n x^n|          (form="safe"; others: ``padenet.rational``)

    A layer, or the activation of one: ``Dense(64, activation=PAU("gelu"))``. Give every layer a
    unit of its own; a unit that serves two layers is trained by both. ``groups`` units share out
    ``channel_dim`` evenly: ``groups=channels`` is one unit per channel.

    Args:
        init: Start of every unit: a name from ``padenet.core.STARTS``, a pair (a, b), a ``Fit``,
            or a function of NumPy arrays, which is fitted over [-3, 3].
        aim: Of a name or function: "wide", good up to ±10; "near", best on [-3, 3]; "steady",
            which trains best. By default what suits a name, "wide" for a function.
        degrees: (m, n), both from 0 on.
        form: "safe", "abs_terms", "free" or "offset".
        q: Constant of the denominator of "safe" and "offset", in [1e-6, 1].
        groups: Number of units.
        channel_dim: The dim of the inputs that the groups divide, the batch being 0.

    The coefficients have the policy's variable dtype and are never cast: under a mixed policy
    they stay float32, and values are computed in float32 and rounded once.
    """

    def __init__(
        self,
        init: Init = "lrelu",
        *,
        aim: str | None = None,
        degrees: tuple[int, int] = (5, 4),
        form: str = "safe",
        q: float = 1.0,
        groups: int = 1,
        channel_dim: int = -1,
        **options: Any,
    ):
        super().__init__(**options)
        self.degrees = check_degrees(tuple(degrees))
        spec = Spec(form, q, channel_dim)
        check_spec(spec)
        self.form, self.q, self.channel_dim = form, float(q), channel_dim
        self.aim = aim
        self.init: Start = read_start(init, aim, self.degrees, spec)
        self.groups = count_groups(groups)
        self.supports_masking = True
        a, b = starting_coefficients(self.init, self.degrees, spec, aim)
        a, b = spread(a, b, self.groups)
        self.a, self.b = self._weight("a", a), self._weight("b", b)

    def _weight(self, name: str, values: np.ndarray) -> Any:
        def start(shape: Shape, dtype: Any = None) -> Tensor:
            return keras.ops.convert_to_tensor(values, dtype=dtype)

        return self.add_weight(name=name, shape=values.shape, initializer=start, autocast=False)

    @property
    def spec(self) -> Spec:
        return Spec(self.form, self.q, self.channel_dim)

    def build(self, input_shape: Shape) -> None:
        if self.groups > 1:
            check_groups(input_shape, self.groups, self.channel_dim)

    def call(self, inputs: Tensor) -> Tensor:
        return apply(inputs, self.a.value, self.b.value, None, self.spec)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Coefficients that were given, or fitted, are written out: they make the unit again."""
        init: Any = self.init
        if not isinstance(init, str):
            pair = starting_coefficients(init, self.degrees, self.spec)
            init = [c.tolist() for c in pair]
        return {
            **super().get_config(),
            "init": init,
            "aim": self.aim if isinstance(init, str) else None,
            "degrees": list(self.degrees),
            "form": self.form,
            "q": self.q,
            "groups": self.groups,
            "channel_dim": self.channel_dim,
        }


@keras.saving.register_keras_serializable(package="padenet")
class RPAU(PAU):
    r"""Randomized Padé activation unit: a PAU with noise on its coefficients while it trains.

    In training every element of the inputs sees coefficients ``c (1 + u)`` of its own, with
    ``u ~ U(-alpha, alpha)`` drawn for each element and coefficient; the gradient of the noisy
    coefficient is the coefficient's. In inference it is PAU.

    The noise comes from a counter: nothing is stored, backward draws it again. Its key is what a
    ``keras.random.SeedGenerator`` gives, so that a seed is the same noise on every backend.

    Args:
        alpha: Half width of the noise, in [0, 1].
        seed: A whole number of 31 bits, or None for a random one. The rest as for ``PAU``.
    """

    def __init__(
        self, init: Init = "lrelu", *, alpha: float = 0.01, seed: int | None = None, **options: Any
    ):
        super().__init__(init, **options)
        check_spec(self.spec._replace(alpha=alpha))
        self.alpha = float(alpha)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.alpha == 0:
            return super().call(inputs)
        spec = self.spec._replace(alpha=self.alpha)
        return apply(inputs, self.a.value, self.b.value, self.seed_generator.next(), spec)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "alpha": self.alpha, "seed": self.seed}
