r"""A unit's F(x) = P(x) / Q(x) as text: LaTeX, C, Python or plain.

C and Python are exact: every coefficient is written with all its digits, and both polynomials by
Horner's rule. They are the plain formula in float64, without ``rational``'s care for x so large
that powers overflow. LaTeX and plain text are for reading: rounded, zero terms left out.

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

import math
from collections.abc import Sequence
from typing import Any

from padenet.core.arrays import floats
from padenet.core.forms import Spec

STYLES = ("text", "latex", "python", "c")


def write(
    a: Any, b: Any, spec: Spec, style: str = "text", group: int | None = None, digits: int = 6
) -> str:
    """The formula of the unit with coefficients ``a`` and ``b``, of one group if they have groups.

    "python" is the source of a function ``pau(x)`` of a number, array or tensor; "c" that of
    ``double pau(double x)``. "latex" and "text" are rounded to ``digits`` digits.
    """
    if style not in STYLES:
        raise ValueError(f"unknown style {style!r} of a formula. Known: {', '.join(STYLES)}.")
    top, bottom = (_numbers(c, group) for c in (a, b))
    if bad := [v for v in (*top, *bottom) if not math.isfinite(v)]:
        raise ValueError(f"a coefficient is {bad[0]}: there is no formula. Reset the parameters.")
    bottom = bottom if spec.constant else [0.0, *bottom]
    if style in ("python", "c"):
        return _source(top, bottom, spec, style)
    return _display(top, bottom, spec, style == "latex", digits)


def _numbers(values: Any, group: int | None) -> list[float]:
    c = floats(values)
    if c.ndim == 2:
        if group is None or not -len(c) <= group < len(c):
            raise ValueError(
                f"group={group}, but the unit has {len(c)} groups. Name one: 0 to {len(c) - 1}."
            )
        c = c[group]
    elif group not in (None, 0):
        raise ValueError(f"group={group}, but the unit has no groups. Leave group out.")
    return [float(v) for v in c]


def _source(top: Sequence[float], bottom: Sequence[float], spec: Spec, style: str) -> str:
    bars = "abs({})" if style == "python" else "fabs({})"
    constant = _exact(spec.q)
    P = _horner(top if len(top) + len(bottom) > 2 else [*top, 0.0], "x")  # of the shape of x
    if spec.flags.per_term:
        Q = f"{constant} + {_horner([abs(v) for v in bottom], bars.format('x'))}"
    elif spec.has_poles:
        Q = f"{constant} + {_horner(bottom, 'x')}"
    else:
        Q = f"{constant} + {bars.format(_horner(bottom, 'x'))}"
    if style == "python":
        return f"def pau(x):\n    P = {P}\n    Q = {Q}\n    return P / Q\n"
    body = f"    double P = {P};\n    double Q = {Q};\n    return P / Q;\n"
    return f"#include <math.h>\n\ndouble pau(double x) {{\n{body}}}\n"


def _horner(c: Sequence[float], x: str) -> str:
    """c_0 + x * (c_1 + x * (...)): every step an addition of one product."""
    text = _exact(c[-1])
    for v in reversed(c[:-1]):
        text = f"{_exact(v)} + {x} * ({text})"
    return text


def _exact(v: float) -> str:
    return repr(float(v))


def _display(
    top: Sequence[float], bottom: Sequence[float], spec: Spec, latex: bool, digits: int
) -> str:
    constant = _rounded(spec.q, digits, latex)
    if spec.flags.per_term:
        bars = r"\left|{}\right|" if latex else "|{}|"
        terms = _terms([abs(v) for v in bottom], digits, latex)
        Q = " + ".join([constant, *(_join([t], bars) for t in terms)])
    elif spec.has_poles:
        Q = _join([(False, constant), *_terms(bottom, digits, latex)])
    else:
        terms = _terms(bottom, digits, latex)
        inner = _join(terms)
        Q = f"{constant} + \\left|{inner}\\right|" if latex else f"{constant} + |{inner}|"
        Q = Q if terms else constant
    P = _join(_terms(top, digits, latex))
    return rf"F(x) = \frac{{{P}}}{{{Q}}}" if latex else f"F(x) = ({P}) / ({Q})"


def _terms(c: Sequence[float], digits: int, latex: bool) -> list[tuple[bool, str]]:
    """Sign and text of every term that is not zero."""
    terms = []
    for k, v in enumerate(c):
        if v == 0:
            continue
        power = "" if k == 0 else "x" if k == 1 else f"x^{{{k}}}" if latex else f"x^{k}"
        number = _rounded(abs(v), digits, latex)
        space = r"\," if latex else " "
        text = number + space + power if power else number
        terms.append((v < 0, power if power and number == "1" else text))
    return terms


def _join(terms: Sequence[tuple[bool, str]], bars: str = "{}") -> str:
    text = ""
    for negative, term in terms:
        sign = " - " if negative else " + "
        text += (sign if text else "-" * negative) + term
    return bars.format(text or "0")


def _rounded(v: float, digits: int, latex: bool) -> str:
    text = f"{v:.{digits}g}"
    mantissa, e, exponent = text.partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if e and latex else text
