"""What a unit computes, apart from its coefficients: the form of Q and where its groups lie."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import NamedTuple

from padenet.core.support.names import unknown

SMALLEST_Q = 1e-6  # with less, F / Q could overflow where the gradient does not


@dataclass(frozen=True)
class Form:
    """One corner of a cube: what is done to A(x) = b_1 x + ... + b_n x^n in Q(x).

    ``code`` is the flags as bits, as the kernels take them.
    """

    per_term: bool = False  # the absolute value of every term
    around: bool = False  # the absolute value of the sum; q may then be chosen, and else is 1
    constant: bool = False  # a term b_0 in the sum: ``b[0]`` is b_0, otherwise b_1
    code: int = field(init=False)

    def __post_init__(self) -> None:
        code = self.per_term | self.around << 1 | self.constant << 2
        object.__setattr__(self, "code", code)

    @property
    def has_poles(self) -> bool:
        """Whether Q may be 0."""
        return not (self.per_term or self.around)

    def degrees(self, a: int, b: int) -> tuple[int, int]:
        """(m, n) of a unit with so many coefficients."""
        return a - 1, b - self.constant

    @property
    def denominator(self) -> str:
        """Q(x) in words."""
        powers = [*["b_0"] * self.constant, "b_1 x", "...", "b_n x^n"]
        if self.per_term:
            powers = [t if t == "..." else f"|{t}|" for t in powers]
        A = " + ".join(powers)
        return f"q + |{A}|" if self.around else f"1 + {A}"


FORMS = {
    "safe": Form(around=True),
    "abs_terms": Form(per_term=True),
    "free": Form(),
    "offset": Form(around=True, constant=True),
}
"""Every form by name. ``free`` is the only one that may have poles."""


class Spec(NamedTuple):
    """``alpha`` is the half width of the noise on every coefficient, 0 for none."""

    form: str = "safe"
    q: float = 1.0
    channel_dim: int = 1
    alpha: float = 0.0

    @property
    def flags(self) -> Form:
        return FORMS[self.form]

    @property
    def constant(self) -> int:
        """How many constant terms ``b`` holds."""
        return int(FORMS[self.form].constant)

    @property
    def has_poles(self) -> bool:
        """Whether Q may be 0."""
        return FORMS[self.form].has_poles


def check_spec(spec: Spec) -> None:
    """Raise an error that names what is wrong, its value and the fix."""
    form, q, channel_dim, alpha = spec
    if not isinstance(form, str) or form not in FORMS:
        raise unknown("form", form, FORMS)
    for name, value in (("q", q), ("alpha", alpha)):
        if not isinstance(value, Real):
            raise TypeError(f"{name}={value!r} must be a number, e.g. {name}=0.1.")
    if not isinstance(channel_dim, Integral):
        raise TypeError(f"channel_dim={channel_dim!r} must be an int: a dim of x, e.g. 1 or -1.")
    if not SMALLEST_Q <= q <= 1:
        raise ValueError(f"q={q} must be in [{SMALLEST_Q:g}, 1]. q=1 is the paper's.")
    if q != 1 and not spec.flags.around:
        raise ValueError(
            f"q={q} has no meaning for form={form!r}, whose constant is 1. "
            "Leave q out or use form='safe'."
        )
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha={alpha} must be in [0, 1]: 0.01 is noise of one percent.")


def check_shapes(a: Sequence[int], b: Sequence[int], spec: Spec) -> None:
    """Refuse coefficients whose shapes are not those of a unit."""
    same = len(a) == len(b) and (len(a) == 1 or (len(a) == 2 and a[0] == b[0]))
    if same and 0 not in a and (0 not in b or not spec.constant):
        return
    columns = "n + 1" if spec.constant else "n"
    raise ValueError(
        f"coefficients must be a: (m + 1,) and b: ({columns},), or with groups (groups, m + 1) "
        f"and (groups, {columns}), for form={spec.form!r}; got a: {tuple(a)} and "
        f"b: {tuple(b)}. For degrees (5, 4) pass 6 numerator and {4 + spec.constant} "
        "denominator values."
    )


def check_groups(shape: Sequence[int | None], groups: int, channel_dim: int) -> None:
    """Refuse an x of that shape, whose unknown sizes are None, that groups cannot share out."""
    shape = tuple(shape)
    if not -len(shape) <= channel_dim < len(shape):
        raise ValueError(
            f"channel_dim={channel_dim} is not a dim of x, which has shape {shape}. With "
            f"groups={groups} name the dim that they divide, e.g. channel_dim=-1."
        )
    channels = shape[channel_dim]
    if channels is not None and channels % groups:
        raise ValueError(
            f"groups={groups} does not divide the {channels} channels of x, shape {shape}, "
            f"channel_dim={channel_dim}. Choose a divisor of {channels}."
        )
