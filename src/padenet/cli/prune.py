"""Lottery tickets: train a net, remove its weakest filters, rewind, train again.

    padenet prune --net vgg8 --dataset cifar10 --activation pau --fractions 10 20 30 40 50 60
    padenet prune --net lenet --activation pau --fractions 20 40 --report report/

A stage is a run in a directory of its own, OUT/NAME of the whole net and then one for each
fraction. A finished stage is not repeated, an interrupted one is resumed, and one that came from
other fractions is refused. --report makes a table and a figure of all pruned runs under OUT.
"""

import argparse

from padenet.cli.options import add_execution, add_record, make_configs, make_execution


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--fractions",
        type=float,
        nargs="+",
        default=[10, 20, 30, 40, 50, 60],
        metavar="PERCENT",
        help="of the filters of each convolution of the whole net (default: 10 20 30 40 50 60)",
    )
    add("--criterion", default="l1", help="which filters go: l1 (default) or sum")
    add("--out", default="runs", help="the stages go to OUT/NAME (default: runs)")
    add("--recipe", default="paper", help="protocol: paper (default), mnist-adam, …")
    add("--seed", type=int, nargs="+", default=[0], metavar="SEED")
    add("--report", metavar="DIR", help="write a table and a figure of what is under OUT there")
    add("--quiet", action="store_true", help="no progress")
    add_record(parser, leave=("seed",))
    add_execution(parser)


def run(args: argparse.Namespace) -> int:
    from functools import partial

    import torch

    from padenet.lab.prune.lottery import lottery
    from padenet.lab.report import write_report
    from padenet.lab.run.progress import show
    from padenet.lab.run.ranks import join_ranks

    execution = make_execution(args)
    configs, code = make_configs(args), 0
    if args.threads:
        torch.set_num_threads(args.threads)
    with join_ranks(args.device) as ranks:
        for config in configs:
            stages = lottery(
                config,
                args.out,
                args.fractions,
                execution,
                criterion=args.criterion,
                ranks=ranks,
                show=partial(show, quiet=args.quiet or not ranks.leads),
            )
            for stage in stages:
                if ranks.leads:
                    print(describe(stage.config.name, stage.result), flush=True)
                code = max(code, 0 if stage.result["status"] == "done" else 3)
        if args.report and ranks.leads:
            files = write_report(args.out, args.report)
            print(f"wrote {len(files)} files to {args.report}")
    return code


def describe(name: str, result: dict[str, object]) -> str:
    """A stage in one line."""
    if result["status"] != "done":
        return f"{name}  {result['status']}: {result['reason']}"
    parts = [f"{name}  test accuracy {result['test_accuracy']:.2f} %"]
    parts.append(f"{result['parameters']:,} parameters")
    pruning = result.get("pruning")
    if isinstance(pruning, dict):
        faster = pruning["whole_milliseconds"] / pruning["milliseconds"]
        parts.append(f"{pruning['multiplications']:,} multiplications")
        parts.append(f"inference {faster:.2f} times as fast as the whole net")
    return "  ".join(parts)
