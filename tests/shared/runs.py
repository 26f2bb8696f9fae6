"""Synthetic recorded runs: what training would have written, made in no time."""

import math

import numpy as np

from padenet.core.starting.starts import find_start
from padenet.lab.records.config import Config
from padenet.lab.records.run import Run

LAYERS = {"lenet": 4, "vgg": 5, "vgg8": 5, "mobilenetv2": 36, "resnet101": 100, "densenet121": 120}
PAPER = ["relu", "relu6", "lrelu", "rrelu", "elu", "celu", "swish", "prelu"]
PAPER += ["slaf", "apl", "srelu", "pau", "rpau"]
REASONS = {"diverged": "train_loss is nan in epoch {}", "failed": "out of memory", "done": ""}
MACHINE = {
    "device": "NVIDIA H200",
    "torch": "2.13.0",
    "padenet": "0.1.0",
    "commit": "5e6f8ce",
}


def make_run(
    dataset="fashion-mnist",
    net="lenet",
    activation="pau",
    seed=0,
    *,
    epochs=10,
    accuracy=None,
    status="done",
    stop=None,
    groups=1,
    top5=False,
    **settings,
):
    """One run. ``accuracy`` fixes the final value; ``stop`` is the last epoch of a lost run."""
    config = Config(
        dataset=dataset, net=net, activation=activation, seed=seed, epochs=epochs, **settings
    )
    kind = f"{dataset} {net} {activation} {config.label}"
    gen = np.random.default_rng([seed, *kind.encode()])
    level = np.random.default_rng([*kind.encode()]).normal(90, 0.6)
    goal = gen.normal(level, 0.25) if accuracy is None else accuracy
    last = epochs if status == "done" else epochs // 3 if stop is None else stop
    metrics = []
    for epoch in range(last + 1):
        left = math.exp(-4 * (epoch / epochs) ** 0.5)
        line = {
            "epoch": epoch,
            "lr": config.lr,
            "train_loss": round(5 / level + 2.2 * left * level / 90 + abs(gen.normal(0, 0.005)), 6)
            if epoch
            else None,
            "train_accuracy": 99 - 85 * left if epoch else None,
            "test_loss": 0.3 + 2 * left,
            "test_accuracy": round(goal - (goal - 10) * left**3 + gen.normal(0, 0.1), 2),
            "seconds": 1.5,
        }
        if top5:
            line["test_top5"] = min(100.0, line["test_accuracy"] + 5)
        if activation in ("pau", "rpau"):
            line["units"] = {
                f"features.{i}": _unit(epoch / epochs, seed, i, groups)
                for i in range(LAYERS.get(net, 2))
            }
        metrics.append(line)
    if status == "done":
        metrics[-1]["test_accuracy"] = round(goal, 2)
    elif status == "diverged":
        metrics[-1].update(train_loss=None, test_loss=None)
    return Run(
        config, metrics, None if status == "unfinished" else _result(config, metrics, status)
    )


def _result(config, metrics, status):
    accuracies = [m["test_accuracy"] for m in metrics]
    return {
        "status": status,
        "reason": REASONS[status].format(metrics[-1]["epoch"]),
        "epochs": metrics[-1]["epoch"],
        "test_accuracy": accuracies[-1],
        "best_accuracy": max(accuracies),
        "test_loss": metrics[-1]["test_loss"],
        "train_loss": metrics[-1]["train_loss"],
        "seconds": 1.5 * len(metrics),
        "images_per_second": 40000.0,
        "parameters": 61746,
        "machine": MACHINE,
    }


def _unit(progress, seed, layer, groups):
    """The start, moved steadily in a direction of the layer's own."""
    start = find_start("lrelu")
    sets = []
    for group in range(groups):
        gen = np.random.default_rng([seed, layer, group])
        sets.append(
            [
                (np.array(cs) + progress * gen.normal(0, 0.25, len(cs))).tolist()
                for cs in (start.a, start.b)
            ]
        )
    a, b = zip(*sets, strict=True)
    return {"a": a[0], "b": b[0]} if groups == 1 else {"a": list(a), "b": list(b)}


def table2(epochs=10, seeds=5, datasets=("mnist", "fashion-mnist"), activations=PAPER):
    """The grid of the paper's Table 2, with some seeds lost as there: SLAF's, and one of PAU's."""
    lost = {("slaf", 1): "diverged", ("slaf", 2): "diverged", ("pau", 3): "diverged"}
    lost |= {("swish", 4): "failed", ("rpau", 4): "unfinished"}
    return [
        make_run(
            d,
            net,
            act,
            seed,
            epochs=epochs,
            status=lost.get((act, seed) if net == "vgg" else None, "done"),
        )
        for d in datasets
        for net in ("lenet", "vgg")
        for act in activations
        for seed in range(seeds)
    ]


def seeds(activation, values, net="lenet", **options):
    """Finished runs with these accuracies, one a seed."""
    return [
        make_run("fashion-mnist", net, activation, i, epochs=2, accuracy=v, **options)
        for i, v in enumerate(values)
    ]


def lost(activation, seed, status="diverged", **options):
    """A run that has no value."""
    return make_run("fashion-mnist", "lenet", activation, seed, epochs=2, status=status, **options)


def entries(table, row):
    """A row of a table by its first entry, as text with mark and note."""
    line = next(r for r in table.rows if r[0].text == row)
    return [" ".join(p for p in (e.mark, e.text, e.note) if p) for e in line[1:]]


def page_runs():
    """Two nets with known means, lost seeds, and an activation that is not everywhere."""
    runs = [
        make_run("fashion-mnist", net, act, seed, epochs=12, accuracy=89 + rise + 0.1 * seed)
        for net in ("lenet", "vgg")
        for rise, act in enumerate(["relu", "swish", "pau", "rpau"])
        for seed in (0, 1)
    ]
    runs += [make_run("fashion-mnist", "lenet", "gelu", s, epochs=12, accuracy=93) for s in (0, 1)]
    runs.append(make_run("fashion-mnist", "vgg", "pau", 2, epochs=12, status="diverged"))
    runs.append(make_run("mnist", "lenet", "slaf", 0, epochs=12, status="diverged", stop=0))
    return runs
