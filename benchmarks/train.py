"""Training, PAU against ReLU and against a plain loop: python benchmarks/train.py --out results/…

    steps   the time of a training step, measured in turns, each candidate with its own net:
            a plain PyTorch loop with ReLU, the library's step with ReLU, with PAU, with RPAU
    runs    whole runs through ``padenet.experiments.run.train``, evaluation included, and several
            of them at once (GPU only: --runs)

Images are random: a step takes the same time for any. On the CPU the machine must be idle.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import Record, describe, describe_gpu, interleave, save

from padenet.experiments.config import Config
from padenet.experiments.data import Dataset, normalise
from padenet.experiments.learner import Learner, build_net
from padenet.experiments.recipes import paper

NETS = {  # and the data sets whose protocol they are timed under
    "lenet": "fashion-mnist",
    "vgg": "fashion-mnist",
    "vgg8": "cifar10",
    "mobilenetv2": "cifar10",
}
PLAIN = "plain loop, relu"


def make_data(name: str, batch: int) -> Dataset:
    channels = 3 if name == "cifar10" else 1
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (8 * batch, channels, 32, 32), dtype=torch.uint8, generator=draw)
    labels = torch.randint(0, 10, (8 * batch,), generator=draw)
    classes = tuple(map(str, range(10)))
    mean, std = (0.5,) * channels, (0.25,) * channels
    return Dataset(name, images, labels, images, labels, classes, mean, std)


def endless(learner: Learner) -> Iterator[None]:
    for epoch in repeat(1):
        yield from learner.train(epoch)


def plain_step(config: Config, data: Dataset, device: torch.device) -> Callable[[], None]:
    """What a newcomer would write, with the data on the device already."""
    net = build_net(config, data).to(device)
    if config.optimizer == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), config.lr)
    else:
        optimizer = torch.optim.SGD(
            net.parameters(), config.lr, config.momentum, weight_decay=config.weight_decay
        )
    images, labels = data.train_images.to(device), data.train_labels.to(device)
    order = torch.randperm(len(labels), device=device).split(config.batch_size)
    state = {"i": 0}

    def step() -> None:
        index = order[state["i"] % len(order)]
        state["i"] += 1
        x = normalise(images[index], data.mean, data.std)
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            loss = F.cross_entropy(net(x), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def time_steps(net: str, device: torch.device, precision: str, seconds: float) -> Iterator[Record]:
    dataset = NETS[net]
    base = paper(Config(dataset=dataset, net=net, activation="relu", precision=precision))
    base = Config(**{**vars(base), "augment": "none"})
    data = make_data(dataset, base.batch_size)
    calls: dict[str, Callable[[], object]] = {PLAIN: plain_step(base, data, device)}
    for activation in ("relu", "pau", "rpau"):
        learner = Learner(Config(**{**vars(base), "activation": activation}), data, device)
        calls[activation] = partial(next, endless(learner))
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for name, times in interleave(calls, seconds, least=6, synchronize=wait).items():
        yield {"net": net, "batch": base.batch_size, "precision": precision, "what": name, **times}


def time_runs(data_dir: str, epochs: int) -> Iterator[Record]:
    """Whole runs on the GPU: seconds an epoch, evaluation included, and runs at the same time."""
    from padenet.experiments.jobs import in_turns
    from padenet.experiments.run import Place, train

    place = Place(device="cuda", data_dir=data_dir)
    with tempfile.TemporaryDirectory() as out:
        for net in ("lenet", "vgg"):
            for activation in ("relu", "pau"):
                config = paper(Config(dataset="fashion-mnist", net=net, activation=activation))
                config = Config(**{**vars(config), "precision": "bf16", "epochs": epochs})
                start = time.perf_counter()
                result = train(config, Path(out) / config.name, place)
                yield {
                    "run": f"{net}, {activation}, {epochs} epochs",
                    "seconds": round(time.perf_counter() - start, 2),
                    "accuracy": result["test_accuracy"] if result else None,
                }
        for jobs in (1, 2, 4, 8):
            base = paper(Config(dataset="fashion-mnist", net="lenet", activation="pau"))
            configs = [
                Config(**{**vars(base), "precision": "bf16", "epochs": 20, "seed": seed})
                for seed in range(jobs)
            ]
            start = time.perf_counter()
            in_turns(configs, Path(out) / f"jobs{jobs}", place, jobs)
            seconds = time.perf_counter() - start
            yield {
                "run": f"lenet, pau, 20 epochs, {jobs} at once",
                "seconds": round(seconds, 2),
                "runs_per_hour": round(3600 * jobs / seconds),
            }


def table(record: Record) -> str:
    lines = ["| net | batch | step | ms | / relu |", "|---|---:|---|---:|---:|"]
    for row in record["steps"]:
        relu = next(
            r["p50"] for r in record["steps"] if r["net"] == row["net"] and r["what"] == "relu"
        )
        lines.append(
            f"| {row['net']} | {row['batch']} | {row['what']} | {row['p50']:.3g} "
            f"| {row['p50'] / relu:.2f} |"
        )
    if record["runs"]:
        lines += ["", "| run | seconds | |", "|---|---:|---:|"]
        for row in record["runs"]:
            note = f"{row['runs_per_hour']} an hour" if "runs_per_hour" in row else row["accuracy"]
            lines.append(f"| {row['run']} | {row['seconds']} | {note} |")
    made = record["made"]
    where = made.get("gpu") or f"{made['cpu']}, {record['threads']} threads"
    lines += [
        "",
        f"{where} · torch {made['torch']} · commit {made['commit'][:10]} · {made['date']}",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nets", nargs="+", default=["lenet", "vgg8"], choices=list(NETS))
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--seconds", type=float, default=20, help="for each net")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--runs", metavar="DATA_DIR", help="also whole runs, on the GPU")
    parser.add_argument("--epochs", type=int, default=100, help="of the whole runs")
    parser.add_argument("--commit", help="of a tree without .git")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    made = describe() | (describe_gpu() if device.type == "cuda" else {})
    made["commit"] = args.commit or made["commit"] or "unknown"
    rows = [r for net in args.nets for r in time_steps(net, device, args.precision, args.seconds)]
    runs = list(time_runs(args.runs, args.epochs)) if args.runs else []
    record = {
        "benchmark": "train",
        "made": made,
        "threads": args.threads,
        "steps": rows,
        "runs": runs,
    }
    print(table(record))
    if args.out:
        save(record, args.out)


if __name__ == "__main__":
    main()
