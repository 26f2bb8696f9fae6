"""What a unit computes, apart from its coefficients: the form of Q and where its groups lie."""

from typing import NamedTuple

FORMS = {
    "safe": "q + |b_1 x + ... + b_n x^n|",
    "abs_terms": "1 + |b_1 x| + ... + |b_n x^n|",
    "free": "1 + b_1 x + ... + b_n x^n",
    "offset": "q + |b_0 + b_1 x + ... + b_n x^n|",
}
"""Every form by its denominator Q(x). ``b[0]`` is b_1, except in ``offset``, where it is b_0."""


class Spec(NamedTuple):
    """``alpha`` is the half width of the noise on every coefficient, 0 for none."""

    form: str = "safe"
    q: float = 1.0
    channel_dim: int = 1
    alpha: float = 0.0

    @property
    def constant(self) -> int:
        """How many constant terms ``b`` holds: one for ``offset``, else none."""
        return int(self.form == "offset")
