"""How the first epochs of runs compare with those of an older record of the same runs.

    padenet sweep RUNS.py --out runs/first --jobs 2
    padenet pack runs/first results/first-epochs/runs.jsonl.gz
    python tools/first_epochs.py results/first-epochs/runs.jsonl.gz results/table2/runs.jsonl.gz

For each data set, net and activation that both have, over the seeds that both have: the mean loss
on the training images and the mean test accuracy after each epoch, now and then.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean

from padenet.lab.records.packing import read_sources
from padenet.lab.records.run import Run

Key = tuple[str, str, str, int]


def by_key(path: Path) -> dict[Key, Run]:
    runs = [r for r in read_sources([path]) if not r.config.label]
    return {(c.dataset, c.net, c.activation, c.seed): run for run in runs for c in [run.config]}


def table(now: dict[Key, Run], then: dict[Key, Run]) -> str:
    """Markdown, a row for each epoch."""
    groups: dict[tuple[str, str, str], list[Key]] = defaultdict(list)
    for key in sorted(now.keys() & then.keys()):
        groups[key[:3]].append(key)
    lines = [
        "| data | net | unit | seeds | epoch | training loss, now | then | test acc., now | then |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (data, net, unit), keys in groups.items():
        last = min(len(now[k].metrics) for k in keys)
        for epoch in range(1, last):
            cells = [
                f"{mean(runs[k].metrics[epoch][name] for k in keys):.{digits}f}"
                for name, digits in (("train_loss", 3), ("test_accuracy", 2))
                for runs in (now, then)
            ]
            head = [data, net, unit, str(len(keys)), str(epoch)]
            lines.append(f"| {' | '.join([*head, *cells])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("now", type=Path)
    parser.add_argument("then", type=Path)
    args = parser.parse_args()
    print(table(by_key(args.now), by_key(args.then)))


if __name__ == "__main__":
    main()
