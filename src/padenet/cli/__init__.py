"""``padenet``: the command line.

A command is a module of this package: its docstring is the help text, ``add_arguments`` declares
the options and ``run`` does the work. What a module needs beyond argparse it imports in ``run``,
so that ``padenet --help`` is quick.
"""

import argparse
import importlib
import os
import re
import sys

import padenet

COMMANDS: tuple[str, ...] = (
    "data",
    "fit",
    "inspect",
    "pack",
    "plot",
    "prune",
    "report",
    "sweep",
    "train",
)
GO_ON = ("prune", "sweep", "train")
NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)")  # argparse takes -1e3 for an option before 3.14


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="padenet", description="Learnable rational activations.")
    parser.add_argument("--version", action="version", version=f"padenet {padenet.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"padenet.cli.{name}")
        text = module.__doc__ or ""
        command = commands.add_parser(
            name,
            help=text.strip().splitlines()[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command._negative_number_matcher = NEGATIVE
        command.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; 2 for bad input or a failed run, with one line that says what to do."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # what reads our output has seen enough, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"padenet: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        fix = " Repeat the command: runs will resume." if args.command in GO_ON else ""
        print(f"padenet: interrupted.{fix}", file=sys.stderr)
        return 130
