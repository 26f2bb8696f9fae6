"""``nn.Module`` front of ``padenet.torch.functional``: parameters, starting coefficients, repr."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from padenet.core import initial
from padenet.core import printing as formula
from padenet.core.fitting import check_degrees
from padenet.core.forms import Spec, check_spec
from padenet.core.initial import Init, Start, count_groups, read_start, spread
from padenet.core.starting.starts import DEFAULT_AIM, STARTS, find_start
from padenet.torch.functional import DTYPES, apply, rational
from padenet.torch.noise import draw_key
from padenet.torch.saving import state
from padenet.torch.tracing import record_module


class PAU(nn.Module):
    r"""Padé activation unit: ``x -> P(x) / Q(x)`` with learnable coefficients.

        P(x) = a_0 + a_1 x + ... + a_m x^m
        Q(x) = q + |b_1 x + ... + b_n x^n|          (form="safe"; others: ``padenet.rational``)

    One unit serves a whole layer, so degrees (5, 4) add 10 parameters whatever its width.
    ``groups`` units share out ``channel_dim`` evenly: ``groups=channels`` is one unit per channel.
    One unit per neuron of ``(N, C, H, W)`` is ``groups=C*H*W`` on ``x.flatten(1)``.

    Args:
        init: Start of every unit: a name from ``padenet.core.STARTS``, a pair (a, b), a ``Fit``,
            or a function or module, which is fitted over [-3, 3].
        aim: Of a name or function: "wide", good up to ±10; "near", best on [-3, 3]; "steady",
            which trains best (``padenet.core.fitting``). By default what suits a name, "wide" for a
            function.
        degrees: (m, n), both from 0 on.
        form: "safe", "abs_terms", "free" or "offset".
        q: Constant of the denominator of "safe" and "offset", in [1e-6, 1].
        groups: Number of units.
        channel_dim: The dim of ``x`` that the groups divide.
        inplace: Accepted and ignored, because model builders pass it to every activation.

    The ``state_dict`` holds ``a``, ``(m + 1,)`` or ``(groups, m + 1)``, ``b``, and what else the
    unit is (``padenet.torch.saving.state``). To load it into a unit of another form, q, degrees or
    groups is an error; the start is taken over, so that ``repr`` and ``reset_parameters`` are those
    of the saved unit. The start that was a pair, Fit or function is then the loaded coefficients.
    """

    a: nn.Parameter
    b: nn.Parameter
    aim: str | None = None
    shared = False  # made to serve several calls, by ``convert(share=True)``
    start_is_known = True  # not after loading a state that says nothing of it

    def __init__(
        self,
        init: Init = "lrelu",
        *,
        aim: str | None = None,
        degrees: tuple[int, int] = (5, 4),
        form: str = "safe",
        q: float = 1.0,
        groups: int = 1,
        channel_dim: int = 1,
        inplace: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.degrees = check_degrees(degrees)
        check_spec(Spec(form, q, channel_dim))
        self.spec = Spec(form, float(q), channel_dim)
        self.aim = aim
        # A function is kept as its coefficients, and a module does not become a part of the unit.
        self.init: Start = read_start(init, aim, self.degrees, self.spec)
        if dtype is not None and dtype not in DTYPES:
            known = ", ".join(map(str, DTYPES))
            raise TypeError(f"dtype={dtype!r} of the coefficients must be one of {known}.")
        self.groups = count_groups(groups)
        m, n = self.degrees
        counts = (m + 1, n + self.spec.constant)
        shapes = [(c,) if self.groups == 1 else (self.groups, c) for c in counts]
        self.a, self.b = (nn.Parameter(torch.empty(s, device=device, dtype=dtype)) for s in shapes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the start."""
        pair = initial.starting_coefficients(self.init, self.degrees, self.spec, self.aim)
        a, b = (torch.tensor(c) for c in spread(*pair, self.groups))
        with torch.no_grad():
            self.a.copy_(a)
            self.b.copy_(b)
        self.start_is_known = True

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Proxy):
            return self._record(x)
        held = self._parameters  # quicker than nn.Module's own search for self.a
        a, b = held.get("a"), held.get("b")
        if a is None or b is None:  # computed from others, e.g. by a parametrization
            a, b = self.a, self.b
        return apply(x, a, b, None, self.spec)

    def _record(self, x: Any) -> Any:
        """One node of the graph that ``torch.fx`` is tracing."""
        if x.tracer.root is not self:
            return record_module(self, x)
        q, channel_dim = self.q, self.channel_dim
        return rational(x, self.a, self.b, form=self.form, q=q, channel_dim=channel_dim)

    @property
    def form(self) -> str:
        return self.spec.form

    @property
    def q(self) -> float:
        return self.spec.q

    @property
    def channel_dim(self) -> int:
        return self.spec.channel_dim

    def describe(self) -> dict[str, Any]:
        """What else than coefficients its ``state_dict`` says."""
        kind = state.describe(self.degrees, self.spec, self.groups)
        kind |= self._name_start() if self.start_is_known else {}
        return {**kind, "shared": True} if self.shared else kind

    def get_extra_state(self) -> Tensor:
        return state.write(self.describe(), None if self.a.is_meta else self.a.device)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """With its name: transformers writes some models under other names."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        key, kind = prefix + state.SUFFIX, {**self.describe(), "name": prefix[:-1]}
        destination[key] = state.write(kind, destination[key].device)

    def set_extra_state(self, saved: Any) -> None:
        """Check what is loaded against the unit, and take over its start."""
        kind = state.read(saved, state.SUFFIX)
        if wrong := state.compare(kind, self.describe()):
            raise ValueError(f"a unit cannot take this state: {wrong}.")
        start = {k: kind[k] for k in ("start", "aim") if k in kind}
        named = start.get("start") in STARTS
        self.start_is_known = bool(start) and (named or not self.a.is_meta)
        if not self.start_is_known or start == self._name_start():
            return
        self.init = start["start"] if named else (_plain(self.a), _plain(self.b))
        self.aim = start.get("aim")

    def _name_start(self) -> dict[str, Any]:
        if isinstance(self.init, str):
            start = find_start(self.init, self.aim)
            return {"start": start.name, "aim": start.aim}
        pair = starting_coefficients(self.init, self.degrees, self.spec)
        return {"start": state.fingerprint(*pair)}

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, *messages: list[str]
    ) -> None:
        key, name = prefix + state.SUFFIX, f"unit {prefix[:-1]!r}" if prefix else "the unit"
        given = dict(state_dict)
        if key in given:
            try:
                wrong = state.compare(state.read(given[key], key), self.describe())
            except ValueError as damaged:
                messages[-1].append(str(damaged))
                return
            if wrong:
                fix = "Make it as it was saved; padenet.load does so in a model without units"
                messages[-1].append(f"{name}: {wrong}. {fix}.")
                return
        elif any(k.startswith(prefix) for k in given):
            warnings.warn(
                "the state of some units does not say their form, q and degrees, as those of "
                "earlier versions: they are taken to be as they are here. Saved again it will.",
                UserWarning,
                stacklevel=2,
            )
            kind = state.describe(self.degrees, self.spec, self.groups)
            given[key] = state.write(kind, None)
        super()._load_from_state_dict(given, prefix, metadata, strict, *messages)

    def formula(self, style: str = "text", group: int | None = None) -> str:
        """F as "text", "latex", "python" or "c" (``core.printing``), of one of the groups."""
        return formula.write(self.a, self.b, self.spec, style, group)

    def extra_repr(self) -> str:
        init = repr(self.init) if isinstance(self.init, str) else "given"
        init = init if self.start_is_known else "loaded"
        parts = [f"init={init}", f"degrees={self.degrees}", f"form={self.form!r}"]
        usual = find_start(self.init).aim if isinstance(self.init, str) else DEFAULT_AIM
        if self.start_is_known and self.aim not in (None, usual):
            parts.insert(1, f"aim={self.aim!r}")
        if self.q != 1:
            parts.append(f"q={self.q}")
        if self.groups != 1:
            parts += [f"groups={self.groups}", f"channel_dim={self.channel_dim}"]
        return ", ".join(parts)


class RPAU(PAU):
    r"""Randomized Padé activation unit: a PAU with noise on its coefficients while it trains.

    In training every element of ``x`` sees coefficients ``c (1 + u)`` of its own, with
    ``u ~ U(-alpha, alpha)`` drawn for each element and coefficient; the gradient of the noisy
    coefficient is the coefficient's. In evaluation it is PAU.

    The noise comes from a counter (``padenet.core.noise``): nothing is stored, backward draws it
    again, ``torch.manual_seed`` repeats it, and CPU and GPU draw the same.

    Args:
        alpha: Half width of the noise, in [0, 1]. The rest as for ``PAU``.
    """

    def __init__(self, init: Init = "lrelu", *, alpha: float = 0.01, **options: Any):
        super().__init__(init, **options)
        check_spec(self.spec._replace(alpha=alpha))
        self.alpha = float(alpha)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.alpha == 0:
            return super().forward(x)
        if isinstance(x, Proxy):
            return record_module(self, x)
        spec = self.spec._replace(alpha=self.alpha)
        check_spec(spec)  # alpha may have been set since the unit was made
        return apply(x, self.a, self.b, draw_key(x.device), spec)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "alpha": self.alpha}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha={self.alpha}"


def _plain(c: Any) -> Tensor:
    """A copy in float64 on the CPU, whole where processes share the parts."""
    whole: Tensor = c.full_tensor() if hasattr(c, "full_tensor") else c
    return whole.detach().to("cpu", torch.float64, copy=True)


def starting_coefficients(
    init: Start, degrees: tuple[int, int], spec: Spec, aim: str | None = None
) -> tuple[Tensor, Tensor]:
    """Those of ``padenet.core.initial`` as tensors."""
    a, b = initial.starting_coefficients(init, degrees, spec, aim)
    return torch.from_numpy(a), torch.from_numpy(b)
