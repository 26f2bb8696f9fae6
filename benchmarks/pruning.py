"""Inference of pruned nets against whole ones on the CPU: python benchmarks/pruning.py

Each net is built with random weights, pruned by L1 and run on random images: neither changes the
time. Whole and pruned nets have the same layout in memory and take turns. Prints a Markdown table;
--out also writes the record. Exit code 1 if vgg8 at 60 % is not at least 2.5 times as fast. The
machine must be idle.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import torch
from measure import Record, describe, interleave, load, save

import padenet
from padenet.lab.nets import NETS, build

BAR, NET, FRACTION = 2.5, "vgg8", 60.0
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=[NET], choices=NETS, metavar="NET")
    parser.add_argument("--activation", default="pau")
    parser.add_argument("--fractions", nargs="+", type=float, default=[20, 40, FRACTION])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=LAYOUTS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, torch.get_num_threads()])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each net, layout and batch")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record = describe() | {"activation": args.activation, "load": load(), "rows": []}
    for threads in dict.fromkeys(args.threads):
        torch.set_num_threads(threads)
        for net, layout, batch in product(args.nets, args.layouts, args.batch):
            rows = time_net(net, args.activation, args.fractions, layout, batch, args.seconds)
            record["rows"] += [{"threads": threads, **row} for row in rows]
    print(table(record))
    if args.out:
        save(record, args.out)
    judged = [r for r in record["rows"] if (r["net"], r["fraction"]) == (NET, FRACTION)]
    worst = min((r["times_as_fast"] for r in judged), default=None)
    if worst is not None:
        print(f"\n{NET}, {FRACTION:g} %: at least {worst:.2f} times as fast; the bar is {BAR}")
    return int(worst is not None and worst < BAR)


def time_net(
    name: str, activation: str, fractions: list[float], layout: str, batch: int, seconds: float
) -> Iterator[Record]:
    torch.manual_seed(0)
    whole = build(name, activation).eval()
    whole.to(memory_format=LAYOUTS[layout])
    size, channels = NETS[name].size, NETS[name].channels
    images = torch.randn(batch, channels, size, size).to(memory_format=LAYOUTS[layout])
    nets = {0.0: (whole, None)}
    nets |= {f: padenet.prune(whole, f, example=images[:1]) for f in fractions}
    with torch.inference_mode():
        calls = {str(f): partial(net, images) for f, (net, _) in nets.items()}
        times = interleave(calls, seconds, least=5)
    pruned = next(p for _, p in nets.values() if p is not None)
    for fraction, (_, pruning) in nets.items():
        now = times[str(fraction)]
        parameters, multiplications = pruning.after if pruning else pruned.before
        yield {
            "net": name,
            "layout": layout,
            "batch": batch,
            "fraction": fraction,
            "parameters": parameters,
            "multiplications": multiplications,
            **now,
            "times_as_fast": round(times["0.0"]["p50"] / now["p50"], 3),
            "cpu_times_as_fast": round(times["0.0"]["cpu_p50"] / now["cpu_p50"], 3),
        }


def table(record: Record) -> str:
    lines = [
        "| net | threads | layout | batch | removed | parameters | multiplications | ms "
        "| p20 to p80 | times as fast | in processor time |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in record["rows"]:
        # Of several threads a clock of the processor sees no more than whole ticks.
        alone = f"{r['cpu_times_as_fast']:.2f}" if r["threads"] == 1 else "–"
        lines.append(
            f"| {r['net']} | {r['threads']} | {r['layout']} | {r['batch']} | {r['fraction']:g} % "
            f"| {r['parameters']:,} | {r['multiplications']:,} | {r['p50']:.3f} "
            f"| {r['p20']:.3f} to {r['p80']:.3f} | {r['times_as_fast']:.2f} "
            f"| {alone} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
