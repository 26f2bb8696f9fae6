"""Fit a rational function to a known activation or a table.

padenet fit gelu
padenet fit gelu --aim near
padenet fit tanh --degrees 3 2 --interval -2 2 --norm max --style c
padenet fit --table measured.csv --plot fit.png
padenet fit paper_relu

The last one, a start that the paper printed, is written as stored.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padenet.core import FORMS

if TYPE_CHECKING:
    from padenet import Fit
    from padenet.core import Start

STYLES = ("text", "json", "python", "c", "latex")
WORD_AFTER, WORD_EVERY = 3.0, 10.0  # seconds
COMMENTS = {"python": "# {}", "c": "// {}", "latex": "% {}"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", nargs="?", help="a known activation, e.g. gelu, or one of the paper's starts")
    add("--table", type=Path, metavar="FILE", help="two columns x,y instead of a target")
    add("--degrees", nargs=2, type=int, metavar=("M", "N"), help="of P and Q; default: 5 4")
    add("--aim", help="wide, near or steady; default: wide, near with --interval, max or --table")
    add("--norm", choices=("rms", "max"), help="rms (default), least squares, or max, minimax")
    add("--form", help=f"of the denominator: {', '.join(FORMS)}; default: safe")
    add("--q", type=float, help="constant of the denominator, in [1e-6, 1]; default: 1")
    add("--interval", nargs=2, type=float, metavar=("LOW", "HIGH"), help="default: -3 3")
    add("--style", default="text", choices=STYLES, help="how to write the result")
    add("--plot", type=Path, metavar="FILE", help="write a figure of fit and error")
    add("--out", type=Path, metavar="FILE", help="write the result to a file")


def run(args: argparse.Namespace) -> None:
    from padenet.core import replacing
    from padenet.torch import plot_fit, save_figure

    if args.table and args.target:
        raise ValueError(f"both a target, {args.target!r}, and a table were given. Leave one out.")
    names = ("degrees", "aim", "norm", "form", "q", "interval")
    options = {k: v for k in names if (v := getattr(args, k)) is not None}
    with replacing(args.out) if args.out else nullcontext() as temporary:
        name, target, found = (
            _fit_table(args.table, options) if args.table else _fit_target(args.target, options)
        )
        text = write_fit(found, name, args.style)
        if args.plot:
            save_figure(plot_fit(found, target, name), args.plot)
        if temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {args.out}" if args.out else text)


def write_fit(found: "Fit", name: str, style: str) -> str:
    """The fit in one of ``STYLES``; source code begins with a comment that holds the errors."""
    import json
    from dataclasses import asdict

    import torch

    from padenet.core import Spec, reach, write

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
    source = write(a, b, spec, style).rstrip()
    if style != "text":
        return f"{COMMENTS[style].format(f'{what}: {errors}')}\n{source}"
    first = "b_0" if spec.constant else "b_1"
    lines = [what, errors, f"a = {_list(found.a)}  from a_0", f"b = {_list(found.b)}  from {first}"]
    return "\n".join([*lines, source])


def _list(values: Iterable[float]) -> str:
    return "[" + ", ".join(f"{v:.12g}" for v in values) + "]"


def _fit_table(path: Path, options: dict[str, Any]) -> "tuple[str, Any, Fit]":
    from padenet import fit

    table = _read_table(path)
    try:
        with patience():
            return path.stem, table, fit(table, **options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _fit_target(name: str | None, options: dict[str, Any]) -> "tuple[str, Any, Fit]":
    from padenet import fit
    from padenet.core import ALIASES, STARTS, TARGETS, unknown

    if name is None:
        raise ValueError(f"nothing to fit. Name a target, {', '.join(TARGETS)}, or give --table.")
    stored = [start for start in STARTS if start not in TARGETS]
    if name in stored:
        target = STARTS[name].target
        if options:
            given = ", ".join(f"--{option}" for option in options)
            raise ValueError(
                f"{name!r} is a stored start, written out as it is: {given} cannot change it. "
                f"Leave that out, or fit {target!r}."
            )
        return name, TARGETS[target], _as_fit(STARTS[name])
    known = ALIASES.get(name, name)
    if known not in TARGETS:
        raise unknown("target", name, [*TARGETS, *ALIASES, *stored])
    with patience():
        return known, TARGETS[known], fit(TARGETS[known], **options)


def _as_fit(start: "Start") -> "Fit":
    from padenet import Fit

    return Fit(
        start.a,
        start.b,
        start.rms,
        start.max_error,
        start.form,
        1.0,
        start.interval,
        start.degrees,
        norm="rms",
        aim=start.aim,
        far_error=start.errors.to_10,
    )


@contextmanager
def patience() -> Iterator[None]:
    """A word on stderr about a search that takes long, and again from time to time."""
    done, start = threading.Event(), time.monotonic()

    def wait() -> None:
        for pause in chain([WORD_AFTER], repeat(WORD_EVERY)):
            if done.wait(pause):
                return
            passed = time.monotonic() - start
            print(f"searching for {passed:.0f} s; high degrees take minutes", file=sys.stderr)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _read_table(path: Path) -> tuple[Any, Any]:
    """x and y of a file with two numbers a line; a first line of names is passed over."""
    import numpy as np

    rows: list[tuple[float, float]] = []
    named = False
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text ({error}). Give a file of lines x,y.") from error
    for number, line in enumerate(text.splitlines(), 1):
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
    return table[:, 0], table[:, 1]
