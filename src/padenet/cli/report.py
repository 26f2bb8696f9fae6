"""Make tables, figures and an interactive page from recorded runs.

padenet report runs/ --out report/
padenet report runs.jsonl.gz --out report/ --title "Table 2"

Writes report.md, report.html, tables/ (Markdown, LaTeX, CSV) and figures/ (PNG, PDF). Runs that
diverged, failed or are not finished are counted and shown, and averaged nowhere.
An earlier report is replaced; other files in DIR stay.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="a directory of runs, at any depth, or a packed file")
    add("--out", type=Path, default=Path("report"), metavar="DIR", help="default: report")
    add("--title", metavar="TEXT", help="heading of report.md and report.html")


def run(args: argparse.Namespace) -> None:
    from padenet.lab.report import TITLE, write_report

    files = write_report(args.source, args.out, args.title or TITLE)
    print(f"wrote {len(files)} files to {args.out}: open {args.out / 'report.html'}")
