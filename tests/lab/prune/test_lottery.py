"""Lottery tickets: stages, rewinding, stopping and going on, the record, the report."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from runs import make_run

import padenet
from padenet.cli import main
from padenet.lab.data import load
from padenet.lab.prune.lottery import lottery, stage_config
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.labels import whole_label
from padenet.lab.records.packing import pack_runs
from padenet.lab.report import write_report
from padenet.lab.report.figures.pruning import plot_pruning
from padenet.lab.report.pruned import pruning_curves
from padenet.lab.report.tables.pruning import pruning_table
from padenet.lab.run.execution import Execution
from padenet.lab.run.learning.learner import Learner
from padenet.lab.run.learning.model import build_net
from padenet.lab.run.run import read_pruning, train
from padenet.lab.sweep.recipes import paper

TINY = replace(paper(Config(activation="pau")), epochs=1, batch_size=256)
FRACTIONS = (20.0, 50.0)
TIMES = ("seconds", "images_per_second", "machine", "pruning")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    torch.set_num_threads(1)
    return list(lottery(TINY, tmp_path_factory.mktemp("lottery"), FRACTIONS))


def content(path):
    """What a run recorded, without times; and its last weights."""
    directory = RunDirectory(path)
    result = {k: v for k, v in directory.result().items() if k not in TIMES}
    lines = [{k: v for k, v in m.items() if k not in TIMES} for m in directory.metrics()]
    return result, lines, directory.checkpoint()["net"]


def assert_same(stages, out):
    """The stages in ``out`` are those to the bit."""
    for stage in stages:
        one, other = content(stage.path), content(out / stage.path.name)
        assert one[:2] == other[:2]
        assert all(torch.equal(one[2][k], other[2][k]) for k in one[2])


def test_stages_are_runs_beside_each_other(stages):
    assert [s.fraction for s in stages] == [0, 20, 50]
    assert [s.path.name for s in stages] == [
        "digits-lenet-pau-s0",
        "digits-lenet-pau-p20-s0",
        "digits-lenet-pau-p50-s0",
    ]
    assert [s.result["parameters"] for s in stages] == [61_746, 42_102, 18_760]
    assert "pruning" not in stages[0].result
    facts = stages[2].result["pruning"]
    assert facts["fraction"] == 50 and facts["criterion"] == "l1" and facts["filters"] == 71
    assert facts["parameters"] == 18_760 and facts["whole_parameters"] == 61_746
    assert facts["multiplications"] == 136_680 and facts["whole_multiplications"] == 416_520
    assert facts["bytes"] < facts["whole_bytes"] and facts["bytes"] > 4 * 18_760
    assert facts["milliseconds"] > 0 and facts["whole_milliseconds"] > 0


def test_the_weakest_trained_filters_go_and_masks_are_nested(stages):
    trained = RunDirectory(stages[0].path).checkpoint()["net"]
    first, second = (read_pruning(RunDirectory(s.path)) for s in stages[1:])
    for name, kept in first.filters.items():
        norms = trained[f"{name}.weight"].double().abs().sum((1, 2, 3))
        gone = sorted(set(range(kept.of)) - set(kept.places))
        assert len(gone) == kept.of // 5
        assert gone == sorted(norms.argsort(stable=True)[: len(gone)].tolist())
        assert set(second.filters[name].places) < set(kept.places)
        assert len(second.filters[name].places) == kept.of // 2


def test_a_stage_starts_with_the_first_weights_of_its_filters(stages):
    data, pruning = load("digits"), read_pruning(RunDirectory(stages[2].path))
    learner = Learner(stages[2].config, data, torch.device("cpu"), pruning=pruning)
    first, now = build_net(TINY, data).state_dict(), learner.net.state_dict()
    places = {n: list(k.places) for n, k in pruning.filters.items()}
    assert torch.equal(now["conv1.weight"], first["conv1.weight"][places["conv1"]])
    want = first["conv2.weight"][places["conv2"]][:, places["conv1"]]
    assert torch.equal(now["conv2.weight"], want)
    assert torch.equal(now["conv3.bias"], first["conv3.bias"][places["conv3"]])
    assert torch.equal(now["fc1.weight"], first["fc1.weight"][:, places["conv3"]])
    for name in ("act1.a", "act1.b", "fc2.weight", "fc1.bias"):
        assert torch.equal(now[name], first[name])
    start = padenet.PAU("lrelu")
    recorded = RunDirectory(stages[2].path).metrics()[0]["units"]["act3"]
    torch.testing.assert_close(torch.tensor(recorded["a"]), start.a.detach(), rtol=1e-8, atol=0)


def test_batch_statistics_start_anew(tmp_path):
    config = replace(TINY, net="vgg8", activation="lrelu")
    net = build_net(config, load("digits"))
    torch.nn.init.constant_(net.block1.bn.running_mean, 3.0)
    _, pruning = padenet.prune(net, 60, example=torch.zeros(1, 1, 32, 32))
    learner = Learner(config, load("digits"), torch.device("cpu"), pruning=pruning)
    assert not learner.net.block1.bn.running_mean.any() and learner.net.block1.bn.num_features == 26
    assert (learner.net.block1.bn.running_var == 1).all()


def test_what_is_there_is_not_repeated_and_what_is_missing_is(stages, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(stages[0].path.parent, again)
    marks = {p: p.stat().st_mtime_ns for p in again.rglob("*.*") if p.name != ".lock"}
    repeated = list(lottery(TINY, again, FRACTIONS))
    assert [s.result for s in repeated] == [s.result for s in stages]
    assert marks == {p: p.stat().st_mtime_ns for p in marks}
    shutil.rmtree(again / stages[2].path.name)
    (again / stages[1].path.name / "result.json").unlink()
    (again / stages[1].path.name / "checkpoint.pt").unlink()
    *_, last = lottery(TINY, again, FRACTIONS)
    assert_same(stages, again)
    assert last.result["test_accuracy"] == stages[2].result["test_accuracy"]


def test_killed_it_goes_on_to_the_same_bits(stages, tmp_path):
    command = [sys.executable, "-m", "padenet", "prune", "--epochs", "1", "--batch-size", "256"]
    command += ["--fractions", "20", "50", "--threads", "1", "--quiet", "--out", str(tmp_path)]
    shutil.copytree(stages[0].path, tmp_path / stages[0].path.name)
    file = tmp_path / stages[1].path.name / "pruning.json"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ) as process:
        while not file.exists() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert file.exists() and not (file.parent / "result.json").exists()
    assert main(command[3:]) == 0
    assert_same(stages, tmp_path)


def test_cut_in_a_stage_it_goes_on_to_the_same_bits(stages, tmp_path):
    shutil.copytree(stages[0].path, tmp_path / stages[0].path.name)
    late = Execution(deadline=0.0)
    assert [s.fraction for s in lottery(TINY, tmp_path, FRACTIONS, late)] == [0]
    directory = RunDirectory(tmp_path / stages[1].path.name)
    assert directory.checkpoint()["epoch"] == 0 and directory.result() is None
    assert [s.fraction for s in lottery(TINY, tmp_path, FRACTIONS)] == [0, 20, 50]
    assert_same(stages, tmp_path)


def test_other_runs_in_its_directories_are_refused(stages, tmp_path):
    shutil.copytree(stages[0].path.parent, tmp_path, dirs_exist_ok=True)
    with pytest.raises(ValueError, match=r"is for 20 % by 'l1', not for 20 % by 'sum'"):
        list(lottery(TINY, tmp_path, FRACTIONS, criterion="sum"))
    swapped = tmp_path / stages[2].path.name / "pruning.json"
    text = json.loads(swapped.read_text())
    whole = {"of": 120, "places": list(range(60))}
    swapped.write_text(json.dumps({**text, "filters": {**text["filters"], "conv3": whole}}))
    with pytest.raises(ValueError, match="keeps filters of conv3 that the stage before has lost"):
        list(lottery(TINY, tmp_path, FRACTIONS))
    swapped.unlink()
    with pytest.raises(ValueError, match=r"holds a run without pruning\.json"):
        list(lottery(TINY, tmp_path, FRACTIONS))
    (tmp_path / stages[0].path.name / "checkpoint.pt").unlink()
    for stage in stages[1:]:
        shutil.rmtree(tmp_path / stage.path.name)
    with pytest.raises(ValueError, match=r"has a result and no checkpoint\.pt"):
        list(lottery(TINY, tmp_path, FRACTIONS))


def test_a_stage_of_another_chain_is_refused_before_anything_is_trained(stages, tmp_path):
    name = stages[2].path.name
    shutil.copytree(stages[0].path.parent / name, tmp_path / name)
    assert read_pruning(RunDirectory(tmp_path / name)).steps == FRACTIONS
    with pytest.raises(ValueError, match=rf"{name} was .* in turn: 20 50\. Now .*: 50\..*--out"):
        list(lottery(TINY, tmp_path, (50.0,)))
    file = tmp_path / name / "pruning.json"
    text = json.loads(file.read_text())
    file.write_text(json.dumps({**text, "steps": [50.0]}))
    with pytest.raises(ValueError, match=rf"{name} was .*: 50\. Now .*: 20 50\..*or delete"):
        list(lottery(TINY, tmp_path, FRACTIONS))
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_stages_that_do_not_know_their_chain_go_on(stages, tmp_path):
    shutil.copytree(stages[0].path.parent, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / stages[2].path.name)
    file = tmp_path / stages[1].path.name / "pruning.json"
    text = json.loads(file.read_text())
    assert text.pop("steps") == [20]
    file.write_text(json.dumps(text))
    *_, last = lottery(TINY, tmp_path, FRACTIONS)
    assert_same(stages, tmp_path)
    assert read_pruning(RunDirectory(last.path)).steps == FRACTIONS


def test_a_run_that_diverged_ends_it(tmp_path):
    stages = lottery(replace(TINY, lr=1e30), tmp_path, FRACTIONS)
    assert next(stages).result["status"] == "diverged"
    with pytest.raises(StopIteration):
        next(stages)


def test_labels():
    assert stage_config(TINY, 0) is TINY
    assert stage_config(TINY, 12.5).label == "p12.5"
    labelled = stage_config(replace(TINY, label="short"), 10)
    assert labelled.label == "short+p10" and whole_label("short+p10", 10) == "short"


def test_the_command_says_what_came_out(stages, tmp_path, capsys):
    shutil.copytree(stages[0].path.parent, tmp_path / "runs")
    command = ["prune", "--epochs", "1", "--batch-size", "256", "--fractions", "20", "50"]
    command += ["--out", str(tmp_path / "runs"), "--quiet", "--report", str(tmp_path / "report")]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("digits-lenet-pau-s0  test accuracy ")
    assert "18,760 parameters  136,680 multiplications  inference " in lines[2]
    tables = {p.name for p in (tmp_path / "report" / "tables").glob("pruning.*")}
    figures = {p.name for p in (tmp_path / "report" / "figures").glob("pruning.*")}
    assert tables == {f"pruning.{e}" for e in ("md", "tex", "csv")}
    assert figures == {f"pruning.{e}" for e in ("png", "pdf")}
    assert "## Pruned nets" in (tmp_path / "report" / "report.md").read_text()
    assert main([*command[:5], "--fractions", "120", "--out", str(tmp_path)]) == 2
    assert "fractions are 120:" in capsys.readouterr().err
    assert main([*command[:5], "--fractions", "10", "10.0000001", "--out", str(tmp_path)]) == 2
    assert "fractions are 10 10.0000001:" in capsys.readouterr().err  # one name for two stages


def test_the_report_needs_no_more_than_a_packed_file(stages, tmp_path):
    packed = tmp_path / "runs.jsonl.gz"
    pack_runs([stages[0].path.parent], packed)
    write_report(packed, tmp_path)
    lines = (tmp_path / "tables" / "pruning.md").read_text().splitlines()
    assert lines[4].startswith("| Digits | LeNet | PAU | 0 | ")
    assert "| 61,746 | 416,520 |" in lines[4] and lines[4].endswith("| 1.00 |")
    assert "| 18,760 | 136,680 |" in lines[6]
    write_report(stages[0].path, tmp_path / "whole")
    assert not list((tmp_path / "whole" / "tables").glob("pruning.*"))


def test_the_report_averages_seeds_and_keeps_activations_apart():
    runs = []
    for activation, gain in (("pau", 1.0), ("lrelu", 0.0)):
        for seed in (0, 1):
            runs.append(make_run(activation=activation, seed=seed, accuracy=90 + gain + seed))
            for fraction in (10, 60):
                run = make_run(
                    activation=activation,
                    seed=seed,
                    accuracy=90 + gain + seed - fraction / 10,
                    label=f"p{fraction}",
                    status="diverged"
                    if (activation, seed, fraction) == ("lrelu", 1, 60)
                    else "done",
                )
                run.result["pruning"] = {"fraction": fraction, "parameters": 100 - fraction}
                runs.append(run)
    runs.append(make_run(activation="relu"))  # never pruned: no part of it
    curves = pruning_curves(runs)
    assert [[p.fraction for p in c] for c in curves] == [[0, 10, 60], [0, 10, 60]]
    assert [c[0].key.activation for c in curves] == ["lrelu", "pau"]
    assert [p.mean for p in curves[1]] == [91.5, 90.5, 85.5]
    assert curves[0][2].mean == 84 and curves[0][2].std is None
    low, high = plot_pruning(curves).axes[0].get_ylim()
    assert low < min(p.mean - (p.std or 0) for c in curves for p in c) - 0.5
    assert high > max(p.mean + (p.std or 0) for c in curves for p in c) + 0.5
    table = pruning_table(curves)
    assert [row[4].note for row in table.rows] == ["", "", "1 of 2 lost", "", "", ""]
    assert table.records[1]["parameters"] == 90 and table.records[0]["milliseconds"] is None


def test_a_whole_run_knows_no_pruning(tmp_path):
    assert "pruning" not in train(TINY, tmp_path / "run")
    assert read_pruning(RunDirectory(tmp_path / "run")) is None
    (tmp_path / "run" / "pruning.json").write_text("{}")
    with pytest.raises(ValueError, match="does not hold a pruning"):
        read_pruning(RunDirectory(tmp_path / "run"))
