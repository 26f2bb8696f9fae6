"""The learnable activations that the paper compares with: APL, SReLU, Maxout, Mixture, SLAF.

They take ``x`` of any shape with its channels in ``channel_dim`` and give the dtype and memory
format of ``x``. A 16-bit ``x`` is computed in its own type, as torch's activations are; SLAF's
polynomial, whose terms cancel, in that of its coefficients. None draws random numbers, so a seed
gives a net the same weights with each of them.
"""

from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class APL(nn.Module):
    r"""Adaptive piecewise linear unit (Agostinelli et al., 2014), one per channel.

        y = max(0, x) + a_1 max(0, b_1 - x) + ... + a_S max(0, b_S - x)

    ``slopes`` holds the a_s and ``points`` the b_s, both ``(S, channels)``. (In a state dict the
    names a and b belong to Padé units.) It starts as ReLU: slopes 0, points evenly over [-1, 1].

    Both are held small by L2: ``loss + unit.penalty()``, or ``weight_decay=APL.l2`` for them in
    SGD or Adam, which is the same. ``penalty(model)`` adds up a model.
    """

    l2 = 0.001

    def __init__(
        self,
        channels: int,
        *,
        hinges: int = 2,
        channel_dim: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.channels = _at_least_one("channels", channels)
        self.hinges = _at_least_one("hinges", hinges)
        self.channel_dim = channel_dim
        shape = (hinges, channels)
        self.slopes = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.points = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the start."""
        with torch.no_grad():
            self.slopes.zero_()
            start = torch.from_numpy(np.linspace(-1, 1, self.hinges))
            self.points.copy_(start[:, None].expand_as(self.points))

    def forward(self, x: Tensor) -> Tensor:
        slopes = _along_channels(self.slopes, x, self.channel_dim)
        points = _along_channels(self.points, x, self.channel_dim)
        y = x.relu()
        for a, b in zip(slopes.unbind(), points.unbind(), strict=True):
            y = torch.addcmul(y, a, (b - x).relu())
        return y

    def penalty(self) -> Tensor:
        """What L2 adds to the loss; its gradient is ``l2`` times the parameter."""
        return self.l2 / 2 * (self.slopes.square().sum() + self.points.square().sum())

    def extra_repr(self) -> str:
        return f"{self.channels}, hinges={self.hinges}{_repr_of(self.channel_dim)}"


def penalty(model: nn.Module) -> Tensor | float:
    """The sum of ``penalty()`` over the APL units of a model: what its loss lacks, 0 for none."""
    return sum(m.penalty() for m in model.modules() if isinstance(m, APL))


class SReLU(nn.Module):
    r"""S-shaped rectified linear unit (Jin et al., 2016), one per channel.

        y = t_r + a_r (x - t_r)     above t_r
            x                       between
            t_l + a_l (x - t_l)     below t_l

    Each of the four parameters is ``(channels,)``. It starts as LReLU(.2): t_l = 0, a_l = .2,
    t_r = 1, a_r = 1.
    """

    t_l: nn.Parameter
    a_l: nn.Parameter
    t_r: nn.Parameter
    a_r: nn.Parameter

    def __init__(
        self,
        channels: int,
        *,
        channel_dim: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.channels = _at_least_one("channels", channels)
        self.channel_dim = channel_dim
        self.t_l, self.a_l, self.t_r, self.a_r = (
            nn.Parameter(torch.empty(channels, device=device, dtype=dtype)) for _ in range(4)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the start."""
        nn.init.constant_(self.t_l, 0.0)
        nn.init.constant_(self.a_l, 0.2)
        nn.init.constant_(self.t_r, 1.0)
        nn.init.constant_(self.a_r, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        t_l, a_l, t_r, a_r = (
            _along_channels(p, x, self.channel_dim)
            for p in (self.t_l, self.a_l, self.t_r, self.a_r)
        )
        # For t_l <= t_r the same as the three cases, in fewer passes over x.
        y = torch.addcmul(x, a_r - 1, (x - t_r).relu())
        return torch.addcmul(y, 1 - a_l, (t_l - x).relu())

    def extra_repr(self) -> str:
        return f"{self.channels}{_repr_of(self.channel_dim)}"


class Maxout(nn.Module):
    """The largest of ``pieces`` neighbouring channels (Goodfellow et al., 2013).

    ``(N, pieces · C, ...)`` becomes ``(N, C, ...)``: the layer before it makes that many channels.
    Neighbours, because a depthwise convolution puts the outputs of one channel side by side.
    """

    def __init__(self, *, pieces: int = 2, channel_dim: int = 1):
        super().__init__()
        self.pieces = _at_least_one("pieces", pieces)
        self.channel_dim = channel_dim

    def forward(self, x: Tensor) -> Tensor:
        dim = self.channel_dim % x.ndim
        if x.shape[dim] % self.pieces:
            raise ValueError(
                f"Maxout takes channels by {self.pieces}, but x has {x.shape[dim]}, shape "
                f"{tuple(x.shape)}. Let the layer before give {self.pieces} for each one wanted."
            )
        # Not amax, which loses the memory format.
        return reduce(torch.maximum, x.unflatten(dim, (-1, self.pieces)).unbind(dim + 1))

    def extra_repr(self) -> str:
        return f"pieces={self.pieces}{_repr_of(self.channel_dim)}"


class Mixture(nn.Module):
    """``w_1 x + w_2 max(0, x)``, with free weights that start at .5 (Manessi and Rozza, 2018)."""

    def __init__(
        self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the start."""
        nn.init.constant_(self.weight, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        w_1, w_2 = self.weight.to(x.dtype).unbind()
        return torch.addcmul(w_1 * x, w_2, x.relu())


class SLAF(nn.Module):
    """A polynomial, ``a_0 + a_1 x + ... + a_k x^k`` (Goyal et al., 2019).

    It starts as the least squares fit of LReLU(.01) over [-3, 3]. It may diverge in training, as
    in the paper: then it gives NaN, without an error.
    """

    def __init__(
        self,
        *,
        degree: int = 5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.degree = _at_least_one("degree", degree)
        self.coefficients = nn.Parameter(torch.empty(degree + 1, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the start."""
        with torch.no_grad():
            self.coefficients.copy_(torch.from_numpy(fit_lrelu(self.degree)))

    def forward(self, x: Tensor) -> Tensor:
        z = x.to(torch.promote_types(x.dtype, self.coefficients.dtype))
        *rest, y = self.coefficients.to(z.dtype).unbind()
        for a in reversed(rest):
            y = torch.addcmul(a, y, z)
        return y.to(x.dtype)

    def extra_repr(self) -> str:
        return f"degree={self.degree}"


def fit_lrelu(degree: int, *, slope: float = 0.01, end: float = 3.0) -> np.ndarray[Any, Any]:
    """Coefficients of the polynomial nearest to leaky ReLU over [-end, end] by least squares.

    The normal equations in t = x / end, with the moments of t^k and of t^k lrelu(t) over [-1, 1].
    """
    k = np.arange(degree + 1)
    power = k[:, None] + k
    gram = (1 - (-1.0) ** (power + 1)) / (power + 1)
    moments = (1 - slope * (-1.0) ** k) / (k + 2)
    return np.linalg.solve(gram, moments) * end ** (1.0 - k)


def _along_channels(p: Tensor, x: Tensor, channel_dim: int) -> Tensor:
    """``p``, ``(..., channels)``, in the dtype of ``x`` and shaped to act on its channels."""
    channels = p.shape[-1]
    if not -x.ndim <= channel_dim < x.ndim or x.shape[channel_dim] != channels:
        raise ValueError(
            f"the unit has {channels} channels in dim {channel_dim}, but x has shape "
            f"{tuple(x.shape)}. Make it with the channels of x, and channel_dim where they are."
        )
    after = x.ndim - 1 - channel_dim % x.ndim
    return p.to(x.dtype).reshape(*p.shape, *[1] * after)


def _at_least_one(what: str, value: int) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{what}={value} must be a whole number from 1 on.")
    return value


def _repr_of(channel_dim: int) -> str:
    return "" if channel_dim == 1 else f", channel_dim={channel_dim}"
