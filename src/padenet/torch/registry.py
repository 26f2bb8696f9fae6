"""Every activation by name. The table is the documentation: read it top to bottom.

An activation of your own is one more line, ``ACTIVATIONS["mine"] = Mine``, and then has a name in
nets and runs like the rest. Its class makes it by ``Mine(**options)``, or, listed in
``PER_CHANNEL``, by ``Mine(channels, **options)``.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from padenet.core.support.names import unknown
from padenet.torch.baselines import APL, SLAF, Maxout, Mixture, SReLU
from padenet.torch.nn import PAU, RPAU

ACTIVATIONS: dict[str, Callable[..., nn.Module]] = {
    # the paper's, fixed
    "relu": nn.ReLU,  # max(0, x)
    "relu6": nn.ReLU6,  # min(max(0, x), 6)
    "lrelu": nn.LeakyReLU,  # slope .01 below 0
    "rrelu": nn.RReLU,  # that slope ~ U(1/8, 1/3) an element in training, 11/48 in evaluation
    "elu": nn.ELU,  # exp(x) - 1 below 0
    "celu": nn.CELU,  # the same for alpha = 1
    "swish": nn.SiLU,  # x sigmoid(x)
    "maxout": Maxout,  # max of two channels: the layer before makes twice as many
    # the paper's, learnable, one per layer
    "prelu": nn.PReLU,  # slope below 0, from .25 on: 1 parameter
    "mixture": Mixture,  # w_1 x + w_2 max(0, x): 2
    "slaf": SLAF,  # polynomial of degree 5: 6
    "pau": PAU,  # P(x) / (1 + |A(x)|), degrees 5 and 4: 10
    "rpau": RPAU,  # pau with noise on its coefficients in training: 10
    # the paper's, learnable, one per channel
    "apl": APL,  # max(0, x) + two hinges: 4 parameters per channel
    "srelu": SReLU,  # three linear pieces: 4 per channel
    # more
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "selu": nn.SELU,
    "mish": nn.Mish,
    "softplus": nn.Softplus,
    "hardswish": nn.Hardswish,
    "identity": lambda: nn.Identity(),  # the class itself takes any option
}

PER_CHANNEL = {"apl", "srelu"}


def make_activation(name: str, channels: int | None = None, **options: Any) -> nn.Module:
    """A new module each time, so two layers never share coefficients by accident.

    Args:
        name: A name from ``ACTIVATIONS``.
        channels: Those that come out of it; needed by activations with parameters per channel.
        options: What its class takes: ``init``, ``form``, ``degrees``, ... of pau, ``alpha`` of
            rpau, ``negative_slope`` of lrelu. ``groups="channel"`` makes pau one unit per channel.
    """
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    per_channel = options.get("groups") == "channel"
    if (per_channel or name in PER_CHANNEL) and channels is None:
        raise ValueError(
            f"activation {name!r} has parameters for each channel. Say how many there are: "
            f"make_activation({name!r}, channels=64)."
        )
    if per_channel:
        options = {**options, "groups": channels}
    arguments = [channels] if name in PER_CHANNEL else []
    try:
        return ACTIVATIONS[name](*arguments, **options)
    except TypeError as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "no options"
        raise TypeError(f"activation {name!r} cannot be made with {given}: {error}") from error


def find_activations(model: nn.Module) -> dict[str, nn.Module]:
    """The activations of a model, each once, by their names in it. ``nn.Identity`` is none."""
    kinds: tuple[type[nn.Module], ...] = tuple(
        make for make in ACTIVATIONS.values() if isinstance(make, type)
    )
    return {name: m for name, m in model.named_modules() if isinstance(m, kinds)}
