"""Train all runs of a recipe, several at a time, on this machine or on a Ray cluster.

RECIPE is demo, table2, table3, table3-short, imagenet, stability, frontier, starts, or a Python
file with a function runs() that returns a list of padenet.lab.records.config.Config. Each run is
one of padenet train and goes to OUT/NAME. A finished run is not repeated, an interrupted one is
resumed, one that failed is tried again.

    padenet sweep demo --out runs --jobs 2
    padenet sweep table2 --out runs/table2 --jobs 8 --time-limit 9m --only 'fashion-mnist-*'
    padenet sweep table2 --out runs/table2 --dry-run
    padenet sweep my_runs.py --out /shared/runs --ray auto

Exit code: 0 all done, 2 some failed, 3 all have a result but some diverged, 4 some are unfinished.
"""

import argparse
import math
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from padenet.cli.options import add_execution, add_record, given, make_execution
from padenet.core import require

if TYPE_CHECKING:
    from padenet.lab.sweep.outcome import OnEnd
    from padenet.lab.sweep.status import Status

EVERY = 2.0  # seconds between two looks at the directories


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="a recipe's name or a Python file")
    add("--out", required=True, metavar="DIR", help="each run goes to DIR/NAME")
    add("--jobs", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    add("--time-limit", type=read_time, default=math.inf, metavar="TIME", help="such as 9m, 1h30m")
    add("--only", metavar="PATTERN", help="runs with such names, as 'fashion-mnist-*'")
    add("--ray", metavar="ADDRESS", help="a Ray cluster's address, auto or local")
    add("--dry-run", action="store_true", help="list the runs and estimate the time")
    add("--quiet", action="store_true", help="no progress, the summary only")
    add_record(parser, leave=("dataset", "net", "activation", "seed"))
    add_execution(parser)


def run(args: argparse.Namespace) -> int:
    deadline = time.time() + args.time_limit  # the imports take seconds too
    from padenet.lab.records.config import check_read
    from padenet.lab.run.run import check_names
    from padenet.lab.sweep.checks import check_directories, check_work
    from padenet.lab.sweep.jobs import check_jobs
    from padenet.lab.sweep.recipes.finding import choose, find_runs
    from padenet.lab.sweep.status import exit_code, look, summarize
    from padenet.lab.sweep.sweep import sweep

    execution = make_execution(args, deadline)
    check_jobs(args.jobs)
    configs = choose(find_runs(args.recipe), args.only, given(args))
    check_read(configs, given(args))
    for config in configs:
        check_names(config)
    check_directories(configs, args.out)
    statuses = [look(c, args.out) for c in configs]
    if args.dry_run:
        print_plan(statuses, args)
        return 0
    if args.ray is None:  # a cluster may have what this machine has not
        check_work(statuses, args.out, execution.data_dir)
    if not args.quiet:
        plural = "s" if len(configs) > 1 else ""
        print(f"{len(configs)} run{plural} in {args.out}: {count(statuses)}", flush=True)
    with show(statuses, args) as report:
        statuses = sweep(
            configs,
            args.out,
            execution,
            args.jobs,
            ray=args.ray,
            threads=args.threads,
            report=report,
        )
    if any(s.result for s in statuses):
        print_columns(summarize(statuses))
    for status in statuses:
        if status.state in ("failed", "diverged"):
            print(f"{status.config.name}  {status.state}: {status.reason}")
    print(count(statuses))
    code = exit_code(statuses)
    if code == 4:
        print("Some reached the time limit or are in use elsewhere: repeat the command.")
    return code


def print_plan(statuses: "list[Status]", args: argparse.Namespace) -> None:
    """Every run with its state, and how long the rest takes."""
    import torch

    from padenet.lab.sweep.estimate import time_left, time_runs

    rows = [["run", "state", "epochs"]]
    for s in statuses:
        state = f"{s.state}: {s.reason}" if s.reason else s.state
        rows.append([s.config.name, state, f"{s.epoch}/{s.config.epochs}"])
    print_columns(rows)
    print(count(statuses), flush=True)
    torch.set_num_threads(args.threads or max(1, torch.get_num_threads() // args.jobs))
    try:
        timed = time_runs(statuses, make_execution(args))
    except (OSError, ValueError, ImportError) as error:
        print(f"no estimate of the time: {error}")
        return
    together, alone = time_left(statuses, args.jobs, timed), time_left(statuses, 1, timed)
    if together and alone:
        how = "a few timed steps" if timed else "the epochs of the runs that are there"
        print(f"about {say_time(together)} with {args.jobs} at a time", end=", ")
        print(f"{say_time(alone)} one after the other, by {how}")


@contextmanager
def show(statuses: "list[Status]", args: argparse.Namespace) -> "Iterator[OnEnd]":
    """A function for each outcome: it prints a line, unless a live table shows them."""
    if args.quiet:
        yield lambda outcome: None
    elif sys.stdout.isatty():
        live, since = require("rich.live", "train"), time.time()
        table = lambda: draw([s.config for s in statuses], args, since)
        with live.Live(get_renderable=table, refresh_per_second=1 / EVERY, transient=True):
            yield lambda outcome: None
    else:
        left = [s for s in statuses if s.result is None]
        ended: list[Any] = []

        def report(outcome: Any) -> None:
            if outcome.state != "unfinished":
                ended.append(outcome)
                print(f"[{len(ended)}/{len(left)}] {outcome}", flush=True)

        yield report


def draw(configs: list[Any], args: argparse.Namespace, since: float) -> Any:
    """The table of a sweep as it goes: what runs, what went wrong, how many there are of each."""
    from padenet.lab.sweep.estimate import time_left
    from padenet.lab.sweep.status import look

    table, text = require("rich.table", "train").Table(), require("rich.text", "train").Text
    statuses = [look(c, args.out, since) for c in configs]
    going = [s for s in statuses if s.state != "failed"]
    left = time_left(going, args.jobs)
    table.title = count(statuses) + (f", about {say_time(left)} left" if left else "")
    for name in ("run", "state", "epoch", "accuracy"):
        table.add_column(name)
    for state in ("running", "failed", "diverged"):
        for s in [s for s in statuses if s.state == state][:20]:
            accuracy = "" if s.accuracy is None else f"{s.accuracy:.2f} %"
            words = text(f"{state}: {s.reason}" if s.reason else state)  # brackets are no markup
            table.add_row(s.config.name, words, f"{s.epoch}/{s.config.epochs}", accuracy)
    return table


def count(statuses: "list[Status]") -> str:
    """How many runs there are in each state."""
    order = ("done", "diverged", "failed", "running", "begun", "waiting")
    counts = {state: sum(s.state == state for s in statuses) for state in order}
    return ", ".join(f"{n} {state}" for state, n in counts.items() if n)


def print_columns(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())


def read_time(text: str) -> float:
    """Seconds of 90, 90s, 9m, 1h30m, 1.5h."""
    found = re.fullmatch(r"(?:{0}h)?(?:{0}m)?(?:{0}s?)?".format(r"(\d+(?:\.\d+)?)"), text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time. Write 90s, 9m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds


def say_time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
