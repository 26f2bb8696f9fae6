"""The tool that trains on tasks that change: what it records, and what it calls collapsed."""

import json
import math
import sys

import pytest
import torch
from tools import tool


@pytest.fixture(scope="module")
def reshuffle():
    pytest.importorskip("matplotlib", reason="tools/reshuffle.py draws with matplotlib")
    with tool("reshuffle") as module:
        yield module


def make_run(reshuffle, accuracies, *, unit=False, seed=0):
    return reshuffle.Run("shuffled", "sgd", 0.01, 1, "relu", unit, seed, accuracies, 1.0, {}, [])


def make_pair(reshuffle, own, unit):
    """From the accuracies of each seed."""
    runs = [make_run(reshuffle, a, seed=i) for i, a in enumerate(own)]
    runs += [make_run(reshuffle, a, seed=i, unit=True) for i, a in enumerate(unit)]
    (pair,) = reshuffle.pair_up(runs)
    return pair


def test_record_table_and_figure(reshuffle, tmp_path, capsys):
    out, plot = tmp_path / "new/runs.json", tmp_path / "tasks.png"
    small = ["--dataset=digits", "--seeds=1", "--tasks=2", "--epochs=1", "--images=60"]
    reshuffle.main([*small, "--out", str(out), "--plot", str(plot)])
    printed = capsys.readouterr().out
    record = json.loads(out.read_text(encoding="utf-8"))
    assert record["settings"]["tasks"] == 2 and record["settings"]["images"] == 60
    assert {"device", "torch", "commit"} <= record["machine"].keys()
    runs = record["runs"]
    settings = {(r["kind"], r["optimizer"], r["activation"], r["unit"], r["seed"]) for r in runs}
    assert len(runs) == len(settings) == 2 * 2 * 4 * 2
    for r in runs:
        assert len(r["accuracies"]) == 2 and all(0 <= v <= 100 for v in r["accuracies"])
        assert bool(r["units"]) == bool(r["held"]) == r["unit"]
        assert r["lr"] == reshuffle.RATES[r["optimizer"]] and r["epochs"] == 1
    assert printed.count("| 0 of 1 |") + printed.count("| 1 of 1 |") == 16
    assert plot.read_bytes().startswith(b"\x89PNG")
    reshuffle.main(["--read", str(out)])
    assert capsys.readouterr().out == printed


def test_a_unit_gets_the_weights_images_and_labels_of_its_activation(reshuffle, monkeypatch):
    data = reshuffle.load("digits")
    settings = reshuffle.Settings("digits", tasks=2, images=100, epochs=1)
    seen = []

    def note(net, images, labels):
        seen.append((net.fc1.weight.detach().clone(), images, labels))
        return 0.0

    monkeypatch.setattr(reshuffle, "accuracy", note)
    monkeypatch.setattr(reshuffle, "RATES", {"sgd": 0.0})  # the first weights stay
    for unit in (False, True):
        reshuffle.train(settings, data, "shuffled", "sgd", "relu", unit, 0)
    own, other = seen[:2], seen[2:]
    for a, b in zip(own, other, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert not torch.equal(own[0][2], own[1][2])


def test_kinds_of_change(reshuffle, gen):
    labels = torch.arange(10).repeat(20)
    renamed = reshuffle.change("renamed", labels, 10, gen)
    assert len({*zip(labels.tolist(), renamed.tolist(), strict=True)}) == 10
    shuffled = reshuffle.change("shuffled", labels, 10, gen)
    assert torch.equal(shuffled.bincount(), labels.bincount())
    assert (shuffled == labels).double().mean() < 0.3


@pytest.mark.parametrize(
    "unit, collapsed",
    [
        ([[90.0, 80.0, 80.0, 80.0, 80.0, 80.0]], 0),
        ([[0.0, 75.0, 75.0, 75.0, 75.0, 75.0]], 0),  # 5 points below: not more
        ([[99.0, 74.0, 75.0, 75.0, 75.0, 75.0]], 1),
        ([[99.0, 99.0, 99.0, 99.0, 99.0, 0.0]], 0),  # the mean of five counts: 79.2
        ([[99.0, 99.0, 99.0, 99.0, math.nan, math.nan]], 1),
        ([[99.0] * 6, [10.0] * 6], 1),
    ],
)
def test_collapsed(reshuffle, unit, collapsed):
    """The activation's worst seed ends at 80."""
    own = [[99.0, 80.0, 80.0, 80.0, 80.0, 80.0], [70.0, 90.0, 90.0, 90.0, 90.0, 90.0]]
    pair = make_pair(reshuffle, own, unit)
    assert pair.collapsed == collapsed
    row = reshuffle.table([pair]).splitlines()[-1]
    assert row.endswith(f"| {collapsed} of {len(unit)} |")
    assert "| shuffled | SGD 0.9, 0.01 | ReLU | 84.5 | 85.0 |" in row
    assert ("diverged" in row) == any(math.isnan(v) for seed in unit for v in seed)


def test_an_activation_that_diverges_is_no_bar(reshuffle):
    pair = make_pair(reshuffle, [[90.0, math.nan], [90.0, 90.0]], [[50.0, 50.0], [50.0, math.nan]])
    assert pair.collapsed == 1


def test_fallen(reshuffle):
    """Far below their own best task."""
    histories = [20.0, 90.0, 85.0], [20.0, 90.0, 84.9], [90.0, 90.0, math.nan], [20.0, 60.0, 99.0]
    runs = [make_run(reshuffle, [a, b] + [c] * 5) for a, b, c in histories]
    assert sys.modules["reshuffle_report"].fallen(runs) == 2


def test_divergence_ends_a_run_and_is_recorded(reshuffle, tmp_path, monkeypatch):
    monkeypatch.setattr(reshuffle, "RATES", {"sgd": 1e30})
    data = reshuffle.load("digits")
    settings = reshuffle.Settings("digits", tasks=3, images=100, epochs=1)
    run = reshuffle.train(settings, data, "shuffled", "sgd", "relu", False, 0)
    assert all(math.isnan(v) for v in run.accuracies) and len(run.accuracies) == 3
    path = tmp_path / "runs.json"
    reshuffle.write(path, settings, {}, [run])
    record, (again,) = reshuffle.read(path)
    assert record["settings"]["tasks"] == 3
    assert again.seed == run.seed and all(math.isnan(v) for v in again.accuracies)
