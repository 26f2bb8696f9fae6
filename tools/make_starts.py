"""Make every stored start and write src/padenet/core/starting/starts.json.

A start is what `padenet.fit` finds for a known function f, with degrees (5, 4), form `safe` and
[-3, 3], for each aim of `padenet.core.starting.aims`. Three kinds are made here instead:

- `identity`, which is exact with any Q;
- `near` of elu, gelu and hardswish, whose best fits on [-3, 3] are worthless just outside: for
  these the error up to ±10 is weighed in a little;
- the columns that the paper prints.

Where a fit comes out as the start that is stored, to three digits, the stored digits stay: no
other version of SciPy changes a file for nothing.

Run: python tools/make_starts.py            (half a minute; needs padenet[fit])
     python tools/make_starts.py --table    prints what is stored, for docs/coefficients.md
The last two columns there are seeds that trained, from `padenet sweep starts` (results/starts).
"""

import argparse
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from padenet.core.fitting import Fit, fit, search
from padenet.core.fitting.samples import sample
from padenet.core.starting.aims import AIMS, Aim
from padenet.core.starting.starts import STARTS, STARTS_BY_AIM, Start
from padenet.core.starting.targets import TARGETS
from padenet.lab.records.packed import read_runs

OUT = Path(__file__).parent.parent / "src" / "padenet" / "core" / "starting" / "starts.json"
RUNS = OUT.parents[4] / "results" / "starts" / "runs.jsonl.gz"
TRAINED = 90.0  # percent of the test images
M, N = 5, 4
INTERVAL = (-3.0, 3.0)
FAR = {"at_6": 6.0, "at_10": 10.0, "at_20": 20.0}
SAME = 1e-3  # relative, of every coefficient

LIGHT = Aim(beyond=1e-4 * 3 / 7, simpler=1.15)
KEPT_NEAR = {
    "elu": "the plain optimum (rms 3.6e-5) turns down at x = 9",
    "gelu": "the plain optimum (rms 3.0e-4) turns down at x = 4.4",
    "hardswish": "the plain optimum is the polynomial x/2 + x²/6, which grows like x²",
}
NOTES = {
    ("relu6", "wide"): "A has a zero at 0.4, and F a slight kink there; Q with even powers only "
    "would cost three times the error",
    ("relu6", "near"): "equals relu on [-3, 3]",
    ("relu6", "steady"): "equals relu on [-3, 3]",
    ("lrelu_-0.5", "wide"): "a fit with rms 1.7e-2 has a zero of A at -474 and grows like x² "
    "from 10 on",
    ("lrelu_-0.5", "steady"): "the plain optimum has a zero of A at -96",
    ("elu", "wide"): "good up to ±12; A has a zero at -39, where F is 2.7e3, and every fit "
    "without one beyond [-3, 3] has 14 times the error",
    ("selu", "wide"): "A has a zero at -0.55, and F a slight kink there; a fit with rms 2.1e-2 "
    "has a zero of A at 32 and is off by 18 at 20",
    ("mish", "wide"): "A has a zero at 0.13, and F a slight kink there; Q with even powers only "
    "would cost 1.7 times the error",
    ("hardswish", "wide"): "fits with rms 2.5e-2 have zeros of A at 10 and 13",
    ("hardswish", "steady"): "b_2 is at its bound; without one F would be the polynomial "
    "x/2 + x²/6 over all that counts",
    ("sin", "wide"): "no F of these degrees follows the waves: it is off by 1.4 at ±10",
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


def evaluate(x: np.ndarray, a: list[float], b: list[float], form: str) -> np.ndarray:
    """P / Q with Q = 1 + |A| (`safe`) or 1 + Σ |b_k x^k| (`abs_terms`); b[0] is b_1."""
    terms = x[:, None] ** np.arange(1, len(b) + 1) * np.array(b)
    Q = 1 + (np.abs(terms.sum(1)) if form == "safe" else np.abs(terms).sum(1))
    return np.polynomial.polynomial.polyval(x, a) / Q


def digits(c: Any, first: int) -> list[float]:
    """Twelve digits; what adds less than 1e-13 on the interval is 0."""
    c = np.array(c)
    reach = np.abs(c) * INTERVAL[1] ** np.arange(first, first + len(c))
    return [float(f"{v:.12g}") if r > 1e-13 else 0.0 for v, r in zip(c, reach, strict=True)]


def figure(error: float) -> float:
    """Six digits; what is float64's own rounding is 0."""
    return float(f"{error:.6g}") if error > 1e-13 else 0.0


def record(
    name: str, target: str, aim: str, form: str, a: list[float], b: list[float], how: str, note: str
) -> dict[str, Any]:
    def errors(*x: float) -> np.ndarray:
        x = np.array(x)
        return np.abs(evaluate(x, a, b, form) - TARGETS[target](x))

    inside = errors(*np.linspace(*INTERVAL, 60001))
    far = {"to_10": errors(*np.linspace(-10, 10, 200001)).max()}
    far |= {key: errors(-x, x).max() for key, x in FAR.items()}
    return {
        "name": name,
        "target": target,
        "aim": aim,
        "form": form,
        "degrees": [len(a) - 1, len(b)],
        "interval": list(INTERVAL),
        "a": a,
        "b": b,
        "rms": figure(np.sqrt(np.mean(inside**2))),
        "max_error": figure(inside.max()),
        "errors": {key: figure(v) for key, v in far.items()},
        "how": how,
        "note": note,
    }


def identity(aim: str) -> dict[str, Any]:
    """x Q / Q with Q = (1 + c x²)²: b = 0 would be exact too, but there dF/db = 0 for ever."""
    c, text = (0.75, "3x²/4") if aim == "steady" else (0.25, "x²/4")
    a, b = [0.0, 1.0, 0.0, 2 * c, 0.0, c * c], [0.0, 2 * c, 0.0, c * c]
    note = f"x Q / Q with Q = (1 + {text})²; with b = 0 the denominator would have no gradient"
    return record("identity", "identity", aim, "safe", a, b, "exact", note)


def fitted(name: str, aim: str) -> dict[str, Any]:
    note = NOTES.get((name, aim), "")
    if aim == "near" and name in KEPT_NEAR:
        wanted = Fit((), (), 0, 0, "safe", 1.0, INTERVAL, (M, N), "rms")
        found = search(sample(TARGETS[name], INTERVAL, LIGHT.beyond), wanted, LIGHT)
        note = f"the error over 3 < |x| <= 10 is weighed in by 1 %; {KEPT_NEAR[name]}"
    else:
        found = fit(TARGETS[name], (M, N), aim=aim)
    a, b = digits(found.a, 0), digits(found.b, 1)
    stored = STARTS_BY_AIM.get(name, {}).get(aim)
    if stored and np.allclose([*a, *b], [*stored.a, *stored.b], SAME, 1e-12):
        a, b = list(stored.a), list(stored.b)
    return record(name, name, aim, "safe", a, b, "least squares", note)


def printed(target: str) -> dict[str, Any]:
    """A column of the paper's table; those of ReLU's kind were fitted to `abs_terms`."""
    c = [float(Fraction(v)) for v in PAPER[target].split()]
    form = "abs_terms" if "relu" in target else "safe"
    a, b, note = c[: M + 1], c[M + 1 :], PAPER_NOTES.get(target, "")
    return record(f"paper_{target}", target, "paper", form, a, b, "paper, printed", note)


def make() -> list[dict[str, Any]]:
    plain = [
        identity(aim) if name == "identity" else fitted(name, aim)
        for name in TARGETS
        for aim in AIMS
    ]
    return [*plain, *map(printed, PAPER)]


def kept() -> dict[tuple[str, str | None], list[str]]:
    """For each start the seeds that train to 90 %: stabilised, and not."""
    ends: dict[tuple[str, str | None], tuple[list[float], list[float]]] = {}
    for run in read_runs(RUNS):
        result, config = run.result or {}, run.config
        accuracy = result["test_accuracy"] if result.get("status") == "done" else -math.inf
        both = ends.setdefault((config.start, config.aim), ([], []))
        both[config.stabilize is None].append(accuracy)
    return {
        key: [f"{sum(a >= TRAINED for a in some)} of {len(some)}" for some in both]
        for key, both in ends.items()
    }


def row(start: Start, seeds: dict[tuple[str, str | None], list[str]]) -> str:
    cells = [start.rms, start.errors.to_10, start.errors.at_6, start.errors.at_10]
    cells += [start.errors.at_20, start.b[-1]]
    ends = seeds[start.name, start.aim]
    return " | ".join([start.name, start.aim, *(f"{v:.2g}" for v in cells), *ends])


def table() -> None:
    """The default starts, then the others."""
    seeds = kept()
    rest = [s for aims in STARTS_BY_AIM.values() for s in aims.values()]
    for starts in (STARTS.values(), [s for s in rest if s is not STARTS[s.name]]):
        print(
            "| start | aim | rms on [−3, 3] | max on [−10, 10] | at ±6 | at ±10 | at ±20 | b_4 "
            "| trained | without |"
        )
        print("|---|---|" + "---:|" * 8)
        for start in starts:
            if start.aim != "paper":
                print(f"| {row(start, seeds)} |")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print the stored starts")
    if parser.parse_args().table:
        table()
        return
    records = make()
    lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in records)
    OUT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    for r in records:
        print(f"{r['name']:16} {r['aim']:7} rms {r['rms']:.3e}  to ±10 {r['errors']['to_10']:.3e}")


if __name__ == "__main__":
    main()
