"""A run as one idempotent function: results, resuming, and every way to be stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import padenet
from padenet.cli import main
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.device import switches
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import load_once, steps, train

TINY = Config(activation="pau", epochs=3, batch_size=256, stabilize=0.01)
TIMES = ("seconds", "images_per_second", "machine")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def content(path):
    """What a run recorded, without times; and its last checkpoint."""
    directory = RunDirectory(path)
    result = {k: v for k, v in directory.result().items() if k not in TIMES}
    lines = [{k: v for k, v in m.items() if k not in TIMES} for m in directory.metrics()]
    return result, lines, directory.checkpoint()


def same(one, other):
    """Equal to the last bit, whatever it holds."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def test_a_run_records_what_happened(tmp_path):
    result = train(TINY, tmp_path)
    lines = RunDirectory(tmp_path).metrics()
    assert [m["epoch"] for m in lines] == [0, 1, 2, 3]
    assert result["status"] == "done" and result["epochs"] == 3
    assert result["test_accuracy"] == lines[-1]["test_accuracy"] > 60
    assert result["best_accuracy"] == max(m["test_accuracy"] for m in lines)
    assert result["parameters"] == 61_746
    assert lines[3]["train_loss"] < lines[1]["train_loss"]
    assert json.loads((tmp_path / "config.json").read_text())["activation"] == "pau"
    machine = result["machine"]
    assert machine["torch"] == torch.__version__ and machine["padenet"] == padenet.__version__
    start = padenet.PAU("lrelu")
    assert len(lines[0]["units"]) == 4
    for unit in lines[0]["units"].values():
        torch.testing.assert_close(torch.tensor(unit["a"]), start.a.detach(), rtol=1e-8, atol=0)
        torch.testing.assert_close(torch.tensor(unit["b"]), start.b.detach(), rtol=1e-8, atol=0)
    assert lines[0]["units"] != lines[3]["units"]


def test_the_recorded_coefficients_are_those_of_the_checkpoint(tmp_path):
    train(TINY, tmp_path)
    net = RunDirectory(tmp_path).checkpoint()["net"]
    for name, unit in RunDirectory(tmp_path).metrics()[-1]["units"].items():
        assert torch.equal(torch.tensor(unit["a"]), net[f"{name}.a"])
        assert torch.equal(torch.tensor(unit["b"]), net[f"{name}.b"])


def test_a_finished_run_is_not_repeated(tmp_path):
    first = train(TINY, tmp_path)
    stamps = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir() if p.name != ".lock"}
    assert train(TINY, tmp_path) == first
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


@pytest.mark.parametrize("activation", ["relu", "prelu", "pau", "rpau", "rrelu"])
def test_the_same_seed_gives_the_same_bits(tmp_path, activation):
    config = replace(TINY, activation=activation, epochs=1, augment="crop-flip")
    train(config, tmp_path / "one")
    torch.rand(3)  # what others draw does not matter
    train(config, tmp_path / "two")
    assert same(content(tmp_path / "one"), content(tmp_path / "two"))
    train(replace(config, seed=1), tmp_path / "three")
    assert not same(content(tmp_path / "one")[1], content(tmp_path / "three")[1])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_stopped_anywhere_and_continued_is_the_same_run(tmp_path, optimizer, monkeypatch):
    """Left after any number of batches, with and without a checkpoint since the last epoch."""
    monkeypatch.setattr("padenet.lab.run.run.WRITE_EVERY", 0.0)
    config = replace(TINY, activation="rpau", optimizer=optimizer, lr_decay=0.5, momentum=0.5)
    train(config, tmp_path / "whole")
    for i, stop in enumerate((1, 7, 9, 14)):
        path = tmp_path / str(i)
        for count, _ in enumerate(steps(config, path)):
            if count == stop:
                break
        assert RunDirectory(path).result() is None
        train(config, path)
        assert same(content(path), content(tmp_path / "whole")), stop


def test_killed_at_any_moment_and_continued_is_the_same_run(tmp_path):
    """kill -9 after some epochs, with more to come than a busy machine could run past."""
    options = ["--activation", "rpau", "--epochs", "20", "--batch-size", "128", "--threads", "1"]
    command = [sys.executable, "-m", "padenet", "train", *options, "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(Path(padenet.__file__).parents[1])}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, env=environment)
    cut, kills = tmp_path / "cut", 0
    directory = RunDirectory(cut / "digits-lenet-rpau-s0")
    while directory.result() is None:
        before = len(directory.metrics())
        process = subprocess.Popen([*command, "--out", str(cut)], env=environment)
        while process.poll() is None and (kills == 5 or len(directory.metrics()) < before + 1):
            time.sleep(0.01)
        if process.poll() is None:
            time.sleep(0.037 * (kills % 3))
            process.send_signal(signal.SIGKILL)
            kills += 1
        assert process.wait() in (0, -signal.SIGKILL)
    assert kills >= 2
    assert same(content(directory.path), content(tmp_path / "whole" / directory.path.name))
    assert not [p.name for p in directory.path.iterdir() if p.name.endswith(".tmp")]


def test_one_process_at_a_time(tmp_path):
    running = steps(TINY, tmp_path)
    next(running)
    with pytest.raises(ValueError, match="another process"):
        train(TINY, tmp_path)
    running.close()
    assert train(TINY, tmp_path)["status"] == "done"


def test_a_loss_that_is_not_finite_is_a_result(tmp_path, capsys):
    config = replace(TINY, activation="slaf", stabilize=None, optimizer="sgd", lr=1e6)
    result = train(config, tmp_path / config.name)
    assert result["status"] == "diverged" and "epoch 1" in result["reason"]
    assert result["epochs"] == 1 and result["train_loss"] is None
    assert RunDirectory(tmp_path / config.name).metrics()[-1]["train_loss"] is None
    options = ["--activation", "slaf", "--optimizer", "sgd", "--lr", "1e6", "--epochs", "3"]
    assert main(["train", *options, "--batch-size", "256", "--out", str(tmp_path)]) == 3
    assert "diverged: train_loss is not finite" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="no resource limits there")
def test_a_full_disk_loses_nothing(tmp_path):
    """A limit on the size of files stands for the disk: the checkpoint does not fit."""
    assert train(TINY, tmp_path / TINY.name, Execution(deadline=0)) is None
    before = (tmp_path / TINY.name / "checkpoint.pt").read_bytes()
    code = (
        "import resource, signal, sys; from padenet.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "sys.exit(main(sys.argv[1:]))"
    )
    options = ["--epochs", "3", "--batch-size", "256", "--out", str(tmp_path), "--threads", "1"]
    run = subprocess.run(
        [sys.executable, "-c", code, "train", "--activation", "pau", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(padenet.__file__).parents[1])},
    )
    assert run.returncode == 2 and "checkpoint.pt" in run.stderr, run.stderr
    assert "Repeat the command to resume" in run.stderr
    assert (tmp_path / TINY.name / "checkpoint.pt").read_bytes() == before
    assert {p.name for p in (tmp_path / TINY.name).iterdir()} >= {"failure.json"}
    assert not [p for p in (tmp_path / TINY.name).iterdir() if ".part" in p.name]
    train(TINY, tmp_path / TINY.name)
    train(TINY, tmp_path / "whole")
    assert same(content(tmp_path / TINY.name), content(tmp_path / "whole"))


def test_a_deadline_stops_after_an_epoch(tmp_path):
    assert train(TINY, tmp_path / "cut", Execution(deadline=0)) is None
    assert [m["epoch"] for m in RunDirectory(tmp_path / "cut").metrics()] == [0]
    train(TINY, tmp_path / "cut")
    train(TINY, tmp_path / "whole")
    assert same(content(tmp_path / "cut"), content(tmp_path / "whole"))


def test_bf16_trains(tmp_path):
    config = replace(TINY, precision="bf16", epochs=2)
    assert train(config, tmp_path)["test_accuracy"] > 40


def test_global_switches_are_put_back():
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32, torch.are_deterministic_algorithms_enabled()
    with switches("tf32", deterministic=True):
        assert matmul.allow_tf32 and torch.are_deterministic_algorithms_enabled()
    assert (matmul.allow_tf32, torch.are_deterministic_algorithms_enabled()) == before


def test_data_is_read_once():
    assert load_once("digits", None) is load_once("digits", None)


def test_a_run_that_diverged_does_not_go_on(tmp_path):
    """Killed between its last checkpoint and its result."""
    config = replace(TINY, activation="slaf", stabilize=None, optimizer="sgd", lr=1e6)
    first = train(config, tmp_path)
    (tmp_path / "result.json").unlink()
    second = train(config, tmp_path)
    assert {k: v for k, v in first.items() if k not in TIMES} == {
        k: v for k, v in second.items() if k not in TIMES
    }
