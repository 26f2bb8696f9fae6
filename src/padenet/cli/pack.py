"""Pack runs into one file without checkpoints, merge such files, and unpack them.

padenet pack runs/ runs.jsonl.gz
padenet pack machine-1/ all.jsonl.gz machine-2/ machine-3.jsonl.gz
padenet pack --unpack runs.jsonl.gz runs/

The second name is what is written; runs that it holds already stay in it. Of the same run the
finished record is kept; two finished records that differ are refused.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="a directory of runs, at any depth, or a packed file")
    add("out", type=Path, help="the packed file, or a directory for --unpack")
    add("more", type=Path, nargs="*", default=[], help="further sources to merge")
    add("--last", action="store_true", help="of finished runs keep the last epoch alone")
    add("--unpack", action="store_true", help="write a directory for each run")


def run(args: argparse.Namespace) -> None:
    from padenet.lab.records.packing import pack_runs, unpack_runs
    from padenet.lab.report.facts import describe_counts

    if args.unpack and args.more:
        raise ValueError(
            f"--unpack takes one packed file and a directory, and was also given {args.more[0]}."
        )
    if args.unpack:
        runs = unpack_runs(args.source, args.out)
    else:
        runs = pack_runs([args.source, *args.more], args.out, last=args.last)
    print(f"wrote {args.out}: {describe_counts(runs)}")
