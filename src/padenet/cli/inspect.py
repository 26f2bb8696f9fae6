"""Describe the units of a checkpoint, or the stored starts: closest activation, slopes, zeros, ...

    padenet inspect checkpoint.pt
    padenet inspect checkpoint.pt --interval -5 5 --plot units.png
    padenet inspect starts --aim near

All columns but F(0), the tails and the gain are about the interval. "tails" is what F tends to on
the left and on the right, "max slope" the Lipschitz constant. "params" counts the parameters of a
unit in all its groups, "ops" the operations on each element when it is exported.
"""

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", help="a checkpoint of torch or safetensors, or the word starts")
    add("--interval", nargs=2, type=float, default=(-3.0, 3.0), metavar=("LOW", "HIGH"))
    add("--form", help="of units whose checkpoint does not say it (default: safe)")
    add("--q", type=float, help="constant of their denominators, likewise (default: 1)")
    add("--aim", help="of the stored starts: wide, near or steady; default: what suits each")
    add("--units", metavar="PATTERN", help="only units with such names, e.g. 'layer1.*'")
    add("--json", action="store_true", help="print all facts as JSON")
    add("--plot", type=Path, metavar="FILE", help="write a figure of the units")


def run(args: argparse.Namespace) -> None:
    from padenet import plot
    from padenet.torch import cost, save_figure

    units = read(args)
    interval = tuple(args.interval)
    rows = []
    for name, unit in units.items():
        costs = cost(unit)
        for group in range(unit.groups):
            number = group if unit.groups > 1 else None
            rows.append((name, number, _describe(unit, interval, group), costs))
    if args.plot:
        save_figure(plot(units, interval=interval), args.plot)
    print(_json(args.source, rows) if args.json else _table(rows))


def read(args: argparse.Namespace) -> Any:
    """The units that the options name. Stored starts have a form and a q of their own."""
    from padenet.torch import STORED, read_units

    given = {k: v for k in ("form", "q") if (v := getattr(args, k)) is not None}
    if args.source == STORED and given:
        name, value = next(iter(given.items()))
        raise ValueError(f"{name}={value!r} is about a checkpoint, not {STORED}. Leave it out.")
    return read_units(args.source, pattern=args.units, aim=args.aim, **given)


def _describe(unit: Any, interval: Any, group: int) -> Any:
    """The facts, or None for a unit that has diverged: the others are still worth a look."""
    from padenet import describe

    a, b = (c.reshape(unit.groups, -1)[group] for c in (unit.a, unit.b))
    if not (a.isfinite().all() and b.isfinite().all()):
        return None
    return describe(unit, interval=interval, group=group)


def _json(source: str, rows: list[Any]) -> str:
    import json
    import math
    from dataclasses import asdict

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else None  # JSON has no infinity
        if hasattr(value, "_asdict"):
            return {k: plain(v) for k, v in value._asdict().items()}
        return [plain(v) for v in value] if isinstance(value, tuple) else value

    units = []
    for name, group, facts, costs in rows:
        known = {k: plain(getattr(facts, k)) for k in asdict(facts)} if facts else {}
        units.append(
            {"name": name, "group": group, "finite": facts is not None, **known, **costs._asdict()}
        )
    return json.dumps({"source": source, "units": units}, indent=1)


def _table(rows: list[Any]) -> str:
    poles = any(facts and facts.poles for *_, facts, _ in rows)
    head = ["unit", "closest", "rms", "F(0)", "tails", "max slope", "gain", "zeros"]
    lines = [[*head, "minima", "maxima", *["poles"] * poles, "params", "ops"]]
    for name, group, f, costs in rows:
        price = [str(c) for c in costs]
        label = name if group is None else f"{name}[{group}]"
        if f is None:
            lines.append([label, "not finite", *["-"] * (len(lines[0]) - 4), *price])
            continue
        tails = str(f.left) if f.left == f.right else f"{f.left} | {f.right}"
        cells = [
            label,
            f.closest,
            f"{f.distance:.1e}",
            f"{f.at_zero:.3g}",
            tails,
            f"{f.lipschitz:.4g}",
            "-" if f.gain is None else f"{f.gain:.4f}",
            _some(f.zeros),
            _some(p.x for p in f.minima),
            _some(p.x for p in f.maxima),
        ]
        lines.append([*cells, *[_some(f.poles)] * poles, *price])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _some(values: Any, most: int = 3) -> str:
    texts = [f"{v:.3g}" for v in values]
    more = f" +{len(texts) - most}" if len(texts) > most else ""
    return " ".join(texts[:most]) + more if texts else "-"
