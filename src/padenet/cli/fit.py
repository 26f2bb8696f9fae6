"""Fit a rational function to a known activation or a table.

padenet fit gelu
padenet fit gelu --aim near
padenet fit tanh --degrees 3 2 --interval -2 2 --norm max --style c
padenet fit --table measured.csv --plot fit.png
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from padenet.fit import Fit

STYLES = ("text", "json", "python", "c", "latex")
COMMENTS = {"python": "# {}", "c": "// {}", "latex": "% {}"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", nargs="?", help="a known activation, e.g. gelu, or the name of a stored start")
    add("--table", type=Path, metavar="FILE", help="two columns x,y instead of a target")
    add("--degrees", nargs=2, type=int, default=(5, 4), metavar=("M", "N"), help="of P and Q")
    add("--aim", help="wide, near or steady; default: wide, near with --interval, max or --table")
    add("--norm", default="rms", choices=("rms", "max"), help="least squares or minimax")
    add("--form", default="safe", help="of the denominator: safe, abs_terms, free or offset")
    add("--q", type=float, default=1.0, help="constant of the denominator, in [1e-6, 1]")
    add("--interval", nargs=2, type=float, metavar=("LOW", "HIGH"), help="default: -3 3")
    add("--style", default="text", choices=STYLES, help="how to write the result")
    add("--plot", type=Path, metavar="FILE", help="write a figure of fit and error")
    add("--out", type=Path, metavar="FILE", help="write the result to a file")


def run(args: argparse.Namespace) -> None:
    from padenet.figures import plot_fit, save
    from padenet.files import replacing
    from padenet.fit import fit

    if args.table and args.target:
        raise ValueError(f"both a target, {args.target!r}, and a table were given. Leave one out.")
    name, target = _read_table(args.table) if args.table else _find_target(args.target)
    interval = tuple(args.interval) if args.interval else None
    options: Any = {"interval": interval, "form": args.form, "q": args.q, "norm": args.norm}
    found = fit(target, tuple(args.degrees), aim=args.aim, **options)
    text = write_fit(found, name, args.style)
    if args.plot:
        save(plot_fit(found, target, name), args.plot)
    if args.out:
        with replacing(args.out) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
        print(f"wrote {args.out}")
    else:
        print(text)


def write_fit(found: "Fit", name: str, style: str) -> str:
    """The fit in one of ``STYLES``; source code begins with a comment that holds the errors."""
    import json
    from dataclasses import asdict

    import torch

    from padenet import formula
    from padenet.aims import reach
    from padenet.spec import Spec

    a, b = (torch.tensor(c, dtype=torch.float64) for c in (found.a, found.b))
    spec = Spec(found.form, found.q)
    if style == "json":
        return json.dumps({"target": name, **asdict(found)}, indent=1)
    low, high = found.interval
    m, n = found.degrees
    what = f"{name} on [{low:g}, {high:g}], aim {found.aim}, degrees ({m}, {n}), form {found.form}"
    what += f", q {found.q:g}" if found.q != 1 else ""
    errors = f"rms error {found.rms:.3e}, max error {found.max_error:.3e}"
    if found.far_error is not None:
        low, high = reach(found.interval)
        errors += f", on [{low:.4g}, {high:.4g}] {found.far_error:.3e}"
    source = formula.write(a, b, spec, style).rstrip()
    if style != "text":
        return f"{COMMENTS[style].format(f'{what}: {errors}')}\n{source}"
    first = "b_0" if spec.constant else "b_1"
    lines = [what, errors, f"a = {_list(found.a)}  from a_0", f"b = {_list(found.b)}  from {first}"]
    return "\n".join([*lines, source])


def _list(values: Iterable[float]) -> str:
    return "[" + ", ".join(f"{v:.12g}" for v in values) + "]"


def _find_target(name: str | None) -> tuple[str, Any]:
    from padenet.coefficients import ALIASES, STARTS
    from padenet.extras import unknown
    from padenet.fit import TARGETS

    if name is None:
        raise ValueError(f"nothing to fit. Name a target, {', '.join(TARGETS)}, or give --table.")
    known = ALIASES.get(name, name)
    known = STARTS[known].target if known in STARTS else known
    if known not in TARGETS:
        raise unknown("target", name, [*TARGETS, *ALIASES])
    return known, TARGETS[known]


def _read_table(path: Path) -> tuple[str, Any]:
    """x and y of a file with two numbers a line; a first line of names is passed over."""
    import numpy as np

    rows: list[tuple[float, float]] = []
    named = False
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        cells = line.replace(";", ",").replace("\t", ",").strip().split(",")
        if cells == [""] or line.lstrip().startswith("#"):
            continue
        try:
            x, y = (float(cell) for cell in cells)
        except ValueError:
            if not rows and not named and len(cells) == 2:
                named = True
                continue
            raise ValueError(f"{path}, line {number}: {line!r} is not two numbers x,y.") from None
        rows.append((x, y))
    if not rows:
        raise ValueError(f"{path} has no lines with two numbers x,y.")
    table = np.array(rows)
    return path.stem, (table[:, 0], table[:, 1])
