"""Options that several commands share, made from the records they fill."""

import argparse
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from padenet.lab.records.config import Config, check_read
from padenet.lab.records.fields import fields_of

if TYPE_CHECKING:
    from padenet.lab.run.execution import Execution


def add_record(parser: argparse.ArgumentParser, *, leave: tuple[str, ...] = ()) -> None:
    """An option for every field of a run's record; those not given keep the protocol's value."""
    group = parser.add_argument_group("fields of the record", "unless given, the protocol's values")
    for field in fields_of(Config).values():
        if field.name in leave or not field.help:
            continue
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            type=field.reader(),
            metavar=field.name.upper(),
            help=field.help,
        )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Where a run is computed."""
    group = parser.add_argument_group("place")
    group.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:1")
    group.add_argument("--data-dir", help="directory of the data sets (or PADENET_DATA)")
    group.add_argument(
        "--import",
        action="append",
        default=[],
        metavar="MODULE",
        dest="modules",
        help="a module or a Python file that registers data sets or activations of yours",
    )
    group.add_argument("--threads", type=_threads, help="CPU threads of each process")
    group.add_argument(
        "--deterministic", action="store_true", help="repeat bit for bit on a GPU too"
    )
    group.add_argument(
        "--compile", action="store_true", help="train compiled code: faster, after some seconds"
    )
    group.add_argument("--no-graph", action="store_true", help="no CUDA graphs")
    group.add_argument(
        "--workers",
        type=positive,
        help="processes that decode images (default: 4, at most one per core)",
    )


def make_execution(args: argparse.Namespace, deadline: float = math.inf) -> "Execution":
    """What those options say. The modules that they name are imported here too."""
    from padenet.lab.run.execution import Execution
    from padenet.lab.run.user_code import import_modules

    modules = tuple(os.path.abspath(m) if m.endswith(".py") else m for m in args.modules)
    import_modules(modules)
    return Execution(
        device=args.device,
        data_dir=args.data_dir,
        deterministic=args.deterministic,
        graph=not args.no_graph,
        compile=args.compile,
        workers=args.workers,
        modules=modules,
        deadline=deadline,
    )


def make_configs(args: argparse.Namespace) -> list[Config]:
    """The records of ``--recipe``, a seed each, with the fields that were given."""
    from padenet.lab.sweep.recipes import find_protocol
    from padenet.lab.sweep.recipes.finding import choose

    found = given(args)
    seeds = found.pop("seed")
    which = {k: found[k] for k in ("dataset", "net", "activation") if k in found}
    protocol = find_protocol(args.recipe)
    configs = [replace(protocol(Config(**which, seed=seed)), **found) for seed in seeds]
    check_read(configs, found)
    return choose(configs)


def given(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of the record that the command line gave."""
    return {k: v for k, v in vars(args).items() if k in fields_of(Config)}


def positive(text: str) -> int:
    """The type of options that count something."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _threads(text: str) -> int:
    """No more than any system starts: OpenMP, which torch runs on, ends the process otherwise."""
    value, most = positive(text), max(256, os.cpu_count() or 1)
    if value > most:
        raise argparse.ArgumentTypeError(
            f"{value} is more than {most}. Choose at most the number of cores, "
            f"{os.cpu_count()} here"
        )
    return value
