"""Make every stored start and write src/padenet/starts.json.

A start is a set of coefficients of F(x) = P(x) / Q(x), P = a_0 + … + a_5 x^5,
A = b_1 x + … + b_4 x^4, that approximates a known function f over [-3, 3].

Least squares: minimise the mean of (F - f)² over [-3, 3] with Q = 1 + |A|, as an integral by
Gauss-Legendre nodes with a break at 0. For given b the best a is a linear problem, so the search
runs over b alone (variable projection, `padenet.fit.search`), from many random starts with a
fixed seed.

Three sets of free b are tried: b_2, b_4 (F is smooth, and odd or even parts of f are kept),
b_2, b_3, b_4, and all four (|A| may put a kink at a root of A). The smallest set within 15 % of
the best is taken.

Some optima are worthless beyond the interval: A has a root just outside, or b vanishes, and F
turns down or grows like x². For those functions (`tails`) the error over 3 < |x| <= 10 is added
with weight 1 %.

Run: python tools/make_starts.py            (about 40 s)
Needs padenet[fit].
"""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import special

from padenet.fit.samples import gauss
from padenet.fit.search import Problem, optima, random_starts

OUT = Path(__file__).parent.parent / "src" / "padenet" / "starts.json"
M, N = 5, 4
INTERVAL = (-3.0, 3.0)
FAR = 10.0
TAIL_WEIGHT = 0.01
FREE_B = ((2, 4), (2, 3, 4), (1, 2, 3, 4))
NEAR_BEST = 1.15
RANDOM_STARTS = 60
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


class Target(NamedTuple):
    function: Callable[[np.ndarray], np.ndarray]
    tails: bool = False
    note: str = ""


def leaky(slope: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.where(x > 0, x, slope * x)


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def selu(x: np.ndarray) -> np.ndarray:
    return SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


TAILS_NOTE = "the error over 3 < |x| <= 10 is weighed in by 1 %; "
TARGETS = {
    "relu": Target(leaky(0.0)),
    "relu6": Target(lambda x: np.clip(x, 0, 6), note="equals relu on this interval"),
    "lrelu": Target(leaky(0.01)),
    "lrelu_0.20": Target(leaky(0.20)),
    "lrelu_0.25": Target(leaky(0.25)),
    "lrelu_0.30": Target(leaky(0.30)),
    "lrelu_-0.5": Target(leaky(-0.5)),
    "elu": Target(elu, True, TAILS_NOTE + "the plain optimum (rms 3.6e-5) turns down at x = 9"),
    "selu": Target(selu),
    "sigmoid": Target(special.expit),
    "tanh": Target(np.tanh),
    "swish": Target(lambda x: x * special.expit(x)),
    "gelu": Target(
        lambda x: x * special.ndtr(x),
        True,
        TAILS_NOTE + "the plain optimum (rms 3.0e-4) turns down at x = 4.4",
    ),
    "mish": Target(lambda x: x * np.tanh(softplus(x))),
    "softplus": Target(softplus),
    "hardswish": Target(
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        True,
        TAILS_NOTE + "the plain optimum is the polynomial x/2 + x²/6, which grows like x²",
    ),
    "sin": Target(np.sin),
}

# The table of initial coefficients of the paper, as printed: a_0 … a_5, then b_1 … b_4.
PAPER = {
    "sigmoid": "1/2 1/4 1/18 1/144 1/2016 1/60480 0 1/9 0 1/10008",
    "tanh": "0 1 0 1/9 0 1/945 0 4/9 0 1/63",
    "swish": "0 1/2 1/4 3/56 1/168 1/3360 0 3/28 0 1/1680",
    "relu": "0.02996348 0.61690165 2.37539147 3.06608078 1.52474449 0.25281987 "
    "1.19160814 4.40811795 0.91111034 0.34885983",
    "lrelu": "0.02979246 0.61837738 2.32335207 3.05202660 1.48548002 0.25103717 "
    "1.14201226 4.39322834 0.87154450 0.34720652",
    "lrelu_0.20": "0.02557776 0.66182815 1.58182975 2.94478759 0.95287794 0.23319681 "
    "0.50962605 4.18376890 0.37832090 0.32407314",
    "lrelu_0.25": "0.02423485 0.67709718 1.43858363 2.95497990 0.85679722 0.23229612 "
    "0.41014746 4.14691964 0.30292546 0.32002850",
    "lrelu_0.30": "0.02282366 0.69358438 1.30847432 2.97681599 0.77165297 0.23252265 "
    "0.32849543 4.11557902 0.24155603 0.31659365",
    "lrelu_-0.5": "0.02650441 0.80772912 13.56611639 7.00217900 11.61477781 0.68720375 "
    "13.70648993 6.07781733 12.32535229 0.54006880",
}
PADE = "the Padé approximant at 0"
PAPER_NOTES = {
    "sigmoid": "b_4 is a misprint: the Padé approximant at 0 has 1/1008",
    "tanh": PADE,
    "swish": PADE + ", β = 1",
}


def evaluate(x: np.ndarray, a: np.ndarray, b: np.ndarray, form: str) -> np.ndarray:
    """P / Q with Q = 1 + |A| (`safe`) or 1 + Σ |b_k x^k| (`abs_terms`); b[0] is b_1."""
    terms = x[:, None] ** np.arange(1, len(b) + 1) * b
    Q = 1 + (np.abs(terms.sum(1)) if form == "safe" else np.abs(terms).sum(1))
    return np.polynomial.polynomial.polyval(x, a) / Q


def sample(tails: bool, nodes: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Nodes, square roots of the weights, and the largest |x|."""
    low, high = INTERVAL
    x, w = gauss([low, 0.0, high], nodes)
    if not tails:
        return x, np.sqrt(w), high
    out, v = gauss([high, FAR], nodes)
    x = np.concatenate([x, out, -out])
    w = np.concatenate([w, TAIL_WEIGHT**2 * v / 2, TAIL_WEIGHT**2 * v / 2])
    return x, np.sqrt(w), FAR


def problem(target: Target, free: tuple[int, ...], nodes: int) -> Problem:
    x, weight, size = sample(target.tails, nodes)
    return Problem(x, target.function(x), weight, (-size, size), M, free)


def search(target: Target, free: tuple[int, ...]) -> tuple[float, Problem, np.ndarray]:
    """Best of many random starts on few nodes, polished on many."""
    coarse, fine = problem(target, free, 150), problem(target, free, 1000)
    best = optima(coarse, random_starts(RANDOM_STARTS, len(free)))[0]
    polished = fine.solve(best.x, 1000)
    return np.sqrt(2 * polished.cost), fine, polished.x


def fit(target: Target) -> tuple[np.ndarray, np.ndarray]:
    found = [search(target, free) for free in FREE_B]
    least = min(error for error, _, _ in found)
    _, best, p = next(f for f in found if f[0] <= NEAR_BEST * least)
    return best.coefficients(p)


def digits(c: np.ndarray, first: int) -> list[float]:
    """Twelve digits; what adds less than 1e-13 on the interval is 0."""
    reach = np.abs(c) * INTERVAL[1] ** np.arange(first, first + len(c))
    return [float(f"{v:.12g}") if r > 1e-13 else 0.0 for v, r in zip(c, reach, strict=True)]


def figure(error: float) -> float:
    """Six digits; what is float64's own rounding is 0."""
    return float(f"{error:.6g}") if error > 1e-14 else 0.0


def record(name, target, function, form, a, b, how, note="") -> dict:
    x = np.linspace(*INTERVAL, 60001)
    error = evaluate(x, np.array(a), np.array(b), form) - function(x)
    return {
        "name": name,
        "target": target,
        "form": form,
        "degrees": [len(a) - 1, len(b)],
        "interval": list(INTERVAL),
        "a": a,
        "b": b,
        "rms": figure(np.sqrt(np.mean(error**2))),
        "max_error": figure(np.abs(error).max()),
        "how": how,
        "note": note,
    }


def identity() -> dict:
    """x Q / Q with Q = (1 + x²/4)²: b = 0 would be exact too, but there dF/db = 0 for ever."""
    a, b = [0.0, 1.0, 0.0, 0.5, 0.0, 0.0625], [0.0, 0.5, 0.0, 0.0625]
    note = "x Q / Q with Q = (1 + x²/4)²; with b = 0 the denominator would have no gradient"
    return record("identity", "identity", lambda x: x, "safe", a, b, "exact", note)


def fitted(name: str) -> dict:
    target = TARGETS[name]
    a, b = fit(target)
    a, b = digits(a, 0), digits(b, 1)
    return record(name, name, target.function, "safe", a, b, "least squares", target.note)


def printed(target: str) -> dict:
    """A column of the paper's table; those of ReLU's kind were fitted to `abs_terms`."""
    c = [float(Fraction(v)) for v in PAPER[target].split()]
    form = "abs_terms" if "relu" in target else "safe"
    function, note = TARGETS[target].function, PAPER_NOTES.get(target, "")
    name = f"paper_{target}"
    return record(name, target, function, form, c[: M + 1], c[M + 1 :], "paper, printed", note)


def main() -> None:
    records = [identity(), *map(fitted, TARGETS), *map(printed, PAPER)]
    lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in records)
    OUT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    for r in records:
        print(f"{r['name']:18} {r['form']:10} rms {r['rms']:.3e}  max {r['max_error']:.3e}")


if __name__ == "__main__":
    main()
