"""Training, PAU against ReLU and against a plain loop: python benchmarks/train.py --out results/…

    steps   the time of a training step, measured in turns, each candidate with its own net:
            a plain PyTorch loop with ReLU, the library's step with ReLU, with PAU, with RPAU, and
            with --compile the same as compiled code
    runs    whole runs through ``padenet.lab.run.run.train``, start and evaluation included,
            several of them at once, and an epoch of MobileNetV2 (GPU only: --runs)

Images are random but for whole runs: a step takes the same time for any. On the CPU the machine
must be idle. On a GPU, convolutions are those that cuDNN takes without trying all it has; whole
runs try, as runs do.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import Record, describe, describe_gpu, interleave, save

from padenet.lab.data import Dataset, normalise
from padenet.lab.records.config import Config
from padenet.lab.run.execution import Execution
from padenet.lab.run.learning.learner import Learner
from padenet.lab.run.learning.model import build_net
from padenet.lab.run.run import train
from padenet.lab.sweep.recipes import paper
from padenet.lab.sweep.turns import in_turns

NETS = {  # and the data sets whose protocol they are timed under
    "lenet": "fashion-mnist",
    "vgg": "fashion-mnist",
    "vgg8": "cifar10",
    "mobilenetv2": "cifar10",
    "resnet101": "cifar10",
    "densenet121": "cifar10",
}
PLAIN = "plain loop, relu"
ACTIVATIONS = ("relu", "pau", "rpau")


def make_data(name: str, count: int) -> Dataset:
    channels = 3 if name == "cifar10" else 1
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, channels, 32, 32), dtype=torch.uint8, generator=draw)
    labels = torch.randint(0, 10, (count,), generator=draw)
    classes = tuple(map(str, range(10)))
    mean, std = (0.5,) * channels, (0.25,) * channels
    test = slice(count // 5)
    return Dataset(name, images, labels, images[test], labels[test], classes, mean, std)


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


def time_steps(net: str, device: torch.device, args: argparse.Namespace) -> Iterator[Record]:
    on_gpu = device.type == "cuda"
    dataset = NETS[net]
    base = paper(Config(dataset=dataset, net=net, activation="relu"))
    base = replace(base, precision=args.precision, augment="none")
    base = replace(base, batch_size=args.batch or base.batch_size)
    data = make_data(dataset, 8 * base.batch_size)
    calls: dict[str, Callable[[], object]] = {}
    if args.plain:
        calls[PLAIN] = plain_step(base, data, device)
    for activation in args.activations:
        for name, compiled in (activation, False), (f"{activation}, compiled", True):
            if args.compile or not compiled:
                learner = Learner(paper_like(base, activation), data, device, compile=compiled)
                calls[name] = partial(next, endless(learner))
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    timed = interleave(
        calls, args.seconds, repeats=4 if on_gpu else 1, least=4 if on_gpu else 6, synchronize=wait
    )
    for name, times in timed.items():
        yield {
            "net": net,
            "batch": base.batch_size,
            "precision": args.precision,
            "what": name,
            **times,
        }


def paper_like(base: Config, activation: str) -> Config:
    """``base`` with another activation, and what the protocol gives that one."""
    given = paper(replace(base, activation=activation))
    return replace(given, **{f: getattr(base, f) for f in ("precision", "augment", "batch_size")})


def time_runs(data_dir: str, epochs: int) -> Iterator[Record]:
    """Whole runs on the GPU, and runs at the same time. The first of a kind also warms up."""
    execution = Execution(device="cuda", data_dir=data_dir)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for net, precision in (("lenet", "fp32"), ("vgg", "bf16")):
            base = paper(Config(dataset="fashion-mnist", net=net, activation="pau"))
            base = replace(base, precision=precision)
            train(replace(base, epochs=1), out / f"{net}-warm-up", execution)
            start = time.perf_counter()
            result = train(replace(base, epochs=epochs), out / net, execution)
            yield {
                "run": f"{net}, pau, {precision}, {epochs} epochs",
                "seconds": round(time.perf_counter() - start, 2),
                "accuracy": result["test_accuracy"] if result else None,
            }
        base = paper(Config(dataset="fashion-mnist", net="lenet", activation="pau"))
        few = max(1, epochs // 4)
        for jobs in (1, 4, 8, 16):
            configs = [replace(base, epochs=few, seed=seed) for seed in range(jobs)]
            start = time.perf_counter()
            in_turns(configs, out / f"jobs{jobs}", execution, jobs)
            seconds = time.perf_counter() - start
            yield {
                "run": f"lenet, pau, fp32, {few} epochs, {jobs} at once",
                "seconds": round(seconds, 2),
                "runs_per_hour": round(3600 * jobs / seconds),
            }
    for activation in ("relu", "pau"):
        yield time_epoch(activation)


def time_epoch(activation: str) -> Record:
    """The second epoch of MobileNetV2 in batches of 64, with as many images as CIFAR-10."""
    config = paper(Config(dataset="cifar10", net="mobilenetv2", activation=activation))
    config = replace(config, precision="bf16")
    learner = Learner(config, make_data("cifar10", 50_000), torch.device("cuda", 0))
    for epoch in (1, 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in chain(learner.train(epoch), learner.test()):
            pass
        torch.cuda.synchronize()
    return {
        "run": f"mobilenetv2, {activation}, bf16, 1 epoch",
        "seconds": round(time.perf_counter() - start, 2),
        "accuracy": None,
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
            lines.append(f"| {row['run']} | {row['seconds']} | {note or ''} |")
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
    parser.add_argument("--activations", nargs="+", default=ACTIVATIONS, choices=ACTIVATIONS)
    parser.add_argument("--batch", type=int, help="instead of the protocol's")
    parser.add_argument("--compile", action="store_true", help="also as compiled code")
    parser.add_argument("--no-plain", dest="plain", action="store_false", help="no plain loop")
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
    if args.commit:
        made |= {"commit": args.commit, "dirty": None}  # nothing here can tell
    made["commit"] = made["commit"] or "unknown"
    rows = [r for net in args.nets for r in time_steps(net, device, args)]
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
