"""Draw the units of a checkpoint, or the stored starts beside their activations.

padenet plot checkpoint.pt --out units.png
padenet plot starts --aim near --out starts.png
"""

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", help="a checkpoint of torch or safetensors, or the word starts")
    add("--out", type=Path, required=True, metavar="FILE", help="a picture, e.g. units.png")
    add("--interval", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of x")
    add("--form", default="safe", help="of units whose checkpoint does not say it")
    add("--q", type=float, default=1.0, help="constant of their denominators, likewise")
    add("--aim", help="of the stored starts: wide, near or steady; default: what suits each")
    add("--units", metavar="PATTERN", help="only units with such names, e.g. 'layer1.*'")
    add("--columns", type=int, metavar="N", help="panels in a row")


def run(args: argparse.Namespace) -> None:
    from padenet.figures import plot, plot_starts, save
    from padenet.units import STORED, read_units

    options: dict[str, Any] = {"columns": args.columns} if args.columns else {}
    if args.interval:
        options["interval"] = tuple(args.interval)
    if args.source == STORED and not args.units:
        figure = plot_starts(aim=args.aim, **options)
    else:
        units = read_units(args.source, args.form, args.q, args.units, args.aim)
        figure = plot(units, **options)
    save(figure, args.out)
    print(f"wrote {args.out}")
