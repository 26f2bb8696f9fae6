"""Train a net with an activation.

One run makes one directory: config.json, metrics.jsonl, checkpoint.pt, result.json. A run that is
there is not repeated, an interrupted one is resumed. Several seeds are several runs; --jobs
trains that many at once. Under torchrun the processes share a run.

    padenet train --dataset fashion-mnist --net lenet --activation pau --seed 0
    padenet train --activation pau --seed 0 1 2 --jobs 2
    torchrun --nproc-per-node 2 -m padenet train --dataset cifar10 --net resnet101
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from padenet.cli.options import add_execution, add_record, make_configs, make_execution

if TYPE_CHECKING:
    from padenet.lab.records.config import Config
    from padenet.lab.run.execution import Execution
    from padenet.lab.sweep.outcome import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="runs", help="the run goes to OUT/NAME (default: runs)")
    parser.add_argument(
        "--recipe", default="paper", help="protocol: paper (default), mnist-adam, …"
    )
    parser.add_argument("--seed", type=int, nargs="+", default=[0], metavar="SEED")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default: 1)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_record(parser, leave=("seed",))
    add_execution(parser)


def run(args: argparse.Namespace) -> int:
    import torch

    from padenet.lab.run.progress import show
    from padenet.lab.run.ranks import join_ranks
    from padenet.lab.run.run import train

    execution = make_execution(args)
    configs = make_configs(args)
    if args.jobs != 1:
        return run_together(configs, execution, args)
    if args.threads:
        torch.set_num_threads(args.threads)
    code = 0
    with join_ranks(args.device) as ranks:
        if ranks.leads:
            check_beforehand(configs, execution, args)
        for config in configs:
            path = Path(args.out) / config.name
            with show(config.name, quiet=args.quiet or not ranks.leads) as watch:
                result = train(config, path, execution, ranks=ranks, watch=watch)
            if ranks.leads and result is not None:
                code = max(code, report(config.name, path, result))
    return code


def check_beforehand(
    configs: "list[Config]", execution: "Execution", args: argparse.Namespace
) -> None:
    """Refuse what no run could do, before one is begun."""
    from padenet.lab.sweep.checks import check_directories, check_work
    from padenet.lab.sweep.status import look

    check_directories(configs, args.out)
    check_work([look(c, args.out) for c in configs], args.out, execution.data_dir)


def run_together(configs: "list[Config]", execution: "Execution", args: argparse.Namespace) -> int:
    """``--jobs`` runs at a time, a line as each ends; the exit code is a sweep's."""
    from padenet.lab.run.ranks import world_size
    from padenet.lab.sweep.jobs import run_all
    from padenet.lab.sweep.status import exit_code

    if world_size() > 1:
        raise ValueError("--jobs is for whole runs, torchrun shares one: leave out either.")
    check_beforehand(configs, execution, args)
    outcomes: list[Outcome] = []

    def note(outcome: "Outcome") -> None:
        outcomes.append(outcome)
        if not args.quiet or outcome.state != "done":
            print(outcome, flush=True)

    run_all(configs, args.out, execution, args.jobs, threads=args.threads, report=note)
    return exit_code(outcomes)


def report(name: str, path: object, result: dict[str, object]) -> int:
    """Print the end of a run; 3 for one that diverged."""
    if result["status"] != "done":
        print(f"{name}  {result['status']}: {result['reason']}  ({path})")
        return 3
    print(
        f"{name}  test accuracy {result['test_accuracy']:.2f} %  "
        f"best {result['best_accuracy']:.2f} %  {result['seconds']:.1f} s  ({path})"
    )
    return 0
