"""Draw the units of a checkpoint, or the stored starts beside their activations.

padenet plot checkpoint.pt --out units.png
padenet plot starts --aim near --out starts.png
"""

import argparse
from pathlib import Path
from typing import Any

from padenet.cli.inspect import read
from padenet.cli.options import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", help="a checkpoint of torch or safetensors, or the word starts")
    add("--out", type=Path, required=True, metavar="FILE", help="a picture, e.g. units.png")
    add("--interval", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of x")
    add("--form", help="of units whose checkpoint does not say it (default: safe)")
    add("--q", type=float, help="constant of their denominators, likewise (default: 1)")
    add("--aim", help="of the stored starts: wide, near or steady; default: what suits each")
    add("--units", metavar="PATTERN", help="only units with such names, e.g. 'layer1.*'")
    add("--columns", type=positive, metavar="N", help="panels in a row")


def run(args: argparse.Namespace) -> None:
    from padenet import plot
    from padenet.torch import STORED, plot_starts, save_figure

    options: dict[str, Any] = {"columns": args.columns} if args.columns else {}
    if args.interval:
        options["interval"] = tuple(args.interval)
    units = read(args)
    if args.source == STORED and not args.units:
        figure = plot_starts(aim=args.aim, **options)
    else:
        figure = plot(units, **options)
    save_figure(figure, args.out)
    print(f"wrote {args.out}")
