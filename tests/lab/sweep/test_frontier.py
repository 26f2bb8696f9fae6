"""The map of where units train: its recipe, its rules on made-up runs, and its figure."""

import json
import math
from collections import Counter

import pytest
from tools import tool as load

from padenet.cli import main
from padenet.lab.records.config import Config
from padenet.lab.records.run import Run
from padenet.lab.sweep.recipes import frontier


@pytest.fixture(scope="module")
def tool():
    with load("frontier") as module:
        yield module


def test_every_unit_has_its_activation():
    """Same net, optimiser, rate, decay and seed; at least five seeds of each."""
    runs = frontier.frontier()
    assert len({c.name for c in runs}) == len(runs)
    of = lambda c: (c.net, c.optimizer, c.lr, c.lr_decay, c.weight_decay, c.momentum, c.seed)
    own = {(c.activation, of(c)) for c in runs if c.activation in frontier.REPLACED}
    for c in runs:
        if c.activation in ("pau", "rpau"):
            assert c.stabilize and (c.label.split("_")[0], of(c)) in own
    cells = Counter((c.net, c.activation, c.label) for c in runs)
    assert set(cells.values()) == {len(frontier.SEEDS)}
    assert len(frontier.SEEDS) >= 5
    assert sum(c.activation == "pau" for c in runs) == 5 * 8 * 4 * 3 * 5
    assert {c.alpha for c in runs if c.activation == "rpau"} == {0.01, 0.1}


def test_every_start_is_tried():
    runs = frontier.starts()
    counts = Counter((c.start, c.aim, c.stabilize is None) for c in runs)
    assert set(counts.values()) == {5}
    assert {aim for _, aim, _ in counts} == {"wide", "near", "steady"}
    assert len({c.name for c in runs}) == len(runs)


def make_run(accuracy, activation="gelu", seed=0, far=10.0):
    unit = activation == "pau"
    config = Config(
        net="mlp", activation=activation, seed=seed, label="gelu_sgd_0.05" if unit else "sgd_0.05"
    )
    status = "done" if math.isfinite(accuracy) else "diverged"
    result = {
        "status": status, "test_accuracy": accuracy, "far_output": far,
        "machine": {"device": "a CPU", "torch": "2", "commit": "abc"},
    }  # fmt: skip
    return Run(config, [], result)


def make_runs(own, unit, far=(10.0, 10.0)):
    pairs = zip(("gelu", "pau"), (own, unit), far, strict=True)
    return [
        make_run(accuracy, name, seed, f)
        for name, values, f in pairs
        for seed, accuracy in enumerate(values)
    ]


NAN = math.nan
CASES = {  # the activation's seeds, the unit's; whether the cell counts, seeds lost
    "kept": ([96, 94], [95, 90], True, 0),
    "too low": ([96, 94], [95, 88], True, 1),
    "diverged": ([96, 94], [95, NAN], True, 1),
    "the activation loses a seed": ([96, NAN], [95, NAN], False, 2),
    "the activation is uneven": ([96, 84], [95, 95], False, 0),
    "the activation does not learn": ([10, 11], [95, 95], False, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_lost(tool, case):
    own, unit, counts, lost = CASES[case]
    (cell,) = tool.read_cells(make_runs(own, unit))
    assert cell.counts == counts
    if counts:
        assert cell.lost == lost
    text = tool.describe([cell], "PAU") if counts and not lost else ""
    assert not text or "seeds lost: 0 of 2, in 0 cells" in text


def test_outputs_beside_the_data(tool):
    (tame,) = tool.read_cells(make_runs([96, 94], [95, 95], (10.0, 99.0)))
    (wild,) = tool.read_cells(make_runs([96, 94], [95, 95], (10.0, None)))
    assert tame.wild == pytest.approx(9.9)
    assert wild.wild == math.inf
    assert "more than 10 times the activation's: 1 cells" in tool.describe([wild], "PAU")


def test_the_figure(tool, tmp_path):
    pytest.importorskip("matplotlib")
    cells = tool.read_cells(make_runs([96, 94], [95, 95]))
    tool.draw(cells, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10_000
    assert "| SGD 0.9 | mlp | 1 of 1 | 0 of 2 | 0 of 2 | +0.00 | +0.00 |" in tool.table(cells)


def test_a_run_of_the_map_records_what_is_needed(tmp_path, capsys):
    """Two runs, packed to their last epoch, are a cell."""
    only = "digits-mlp-*relu_sgd_0.05-s0"
    out = tmp_path / "runs"
    assert main(["sweep", "frontier", "--only", only, "--epochs", "1", "--out", str(out)]) == 0
    packed = tmp_path / "runs.jsonl.gz"
    assert main(["pack", "--last", str(out), str(packed)]) == 0
    capsys.readouterr()
    record = json.loads((next(out.glob("*pau*")) / "result.json").read_text())
    assert record["far_output"] > 0


def test_a_cell_that_misses_a_bar_gets_more_seeds(tool, tmp_path):
    """The recipe that the tool writes holds the activation, its unit and both widths of noise."""
    cells = tool.read_cells(make_runs([96, 94], [94, 92.9]))
    assert cells[0].misses and not tool.read_cells(make_runs([96, 94], [94, 94.1]))[0].misses
    tool.write_recipe(cells, tmp_path / "close.py")
    names = {}
    exec((tmp_path / "close.py").read_text(), names)
    runs = names["runs"]()
    assert {c.seed for c in runs} == set(frontier.MORE)
    assert not {c.name for c in runs} & {c.name for c in frontier.frontier()}
    assert {c.label for c in runs} == {
        "sgd_0.05", "gelu_sgd_0.05", "gelu_1_sgd_0.05", "gelu_10_sgd_0.05",
    }  # fmt: skip
    assert len(runs) == 15 * 4
