"""Directories of runs that are damaged, another's, or cannot be written."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from padenet.cli import main
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.files.lock import InUse
from padenet.lab.run.run import steps, train

TINY = Config(activation="relu", epochs=2, batch_size=512)


@pytest.fixture
def begun(tmp_path):
    """A run with a checkpoint after epoch 1, as the clock would leave it."""
    running = steps(TINY, tmp_path)
    next(p for p in running if p.metrics is not None and p.epoch == 1)
    running.close()
    return RunDirectory(tmp_path)


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    monkeypatch.setattr("padenet.lab.run.run.WRITE_EVERY", 0.0)


def test_a_refused_command_changes_nothing(tmp_path):
    """Also before the first metrics, when nothing but the lock says that the run is begun."""
    running = steps(TINY, tmp_path)
    next(running)
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(InUse, match="is in use: another process trains this run"):
        train(replace(TINY, lr=0.5, optimizer="sgd"), tmp_path)
    assert (tmp_path / "config.json").read_bytes() == before
    running.close()


@pytest.mark.parametrize("more", [[], ["--jobs", "2"]])
def test_a_pruned_run_is_no_answer_for_the_whole_net(tmp_path, capsys, more):
    options = ["--epochs", "1", "--batch-size", "256", "--out", str(tmp_path), "--quiet"]
    assert main(["prune", "--fractions", "20", *options]) == 0
    assert main(["train", "--label", "p20", *options, *more]) == 2
    said = capsys.readouterr().err
    assert "digits-lenet-pau-p20-s0 holds a pruned net: it has a pruning.json" in said
    assert "choose another label or directory" in said


def test_a_flipped_bit_is_found(begun):
    whole = begun.checkpoint_file.read_bytes()
    for place in (len(whole) // 4, len(whole) // 2, len(whole) * 3 // 4):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        begun.checkpoint_file.write_bytes(damaged)
        with pytest.raises(OSError, match=r"checkpoint.pt cannot be read: it is .*damaged"):
            train(TINY, begun.path)
    begun.checkpoint_file.write_bytes(whole)
    assert train(TINY, begun.path)["status"] == "done"


def without(state):
    return {}


def of_another(state):
    return {i: {k: torch.zeros(3) for k in v} for i, v in state.items()}


def in_part(state):
    return {i: v for i, v in state.items() if i != 2}


def without_squares(state):
    return {i: {k: v[k] for k in ("step", "exp_avg")} for i, v in state.items()}


@pytest.mark.parametrize("change", [without, of_another, in_part, without_squares])
def test_the_state_of_the_optimiser_must_be_that_of_the_net(begun, change):
    state = begun.checkpoint()
    torch.save(state | {"optimizer": change(state["optimizer"])}, begun.checkpoint_file)
    with pytest.raises(OSError, match=r"checkpoint.pt does not fit the run .*Delete it"):
        train(TINY, begun.path)


def test_an_optimiser_that_remembers_nothing(tmp_path):
    """SGD without momentum has no state, and needs none."""
    config = replace(TINY, optimizer="sgd")
    running = steps(config, tmp_path)
    next(p for p in running if p.metrics is not None and p.epoch == 1)
    running.close()
    assert RunDirectory(tmp_path).checkpoint()["optimizer"] == {}
    assert train(config, tmp_path)["epochs"] == 2


def test_an_epoch_that_is_no_number(begun):
    torch.save(begun.checkpoint() | {"epoch": "x"}, begun.checkpoint_file)
    with pytest.raises(OSError, match=r"checkpoint.pt cannot be read"):
        train(TINY, begun.path)


@pytest.mark.parametrize(
    "number, line, message",
    [
        (2, b'{"epoch": 1, "lr"', "line 2 is not what it should be .*delimiter"),
        (1, b"5", r"line 1 is not what it should be \(a int, not an object\)"),
        (1, b"{}", r"line 1 .*\(without epoch, test_accuracy, seconds\)"),
        (1, b"\xff\xfe", "line 1 is not what it should be"),
    ],
)
def test_damaged_metrics_are_named_with_the_fix(begun, number, line, message):
    lines = begun.metrics_file.read_bytes().splitlines()
    lines[number - 1] = line
    begun.metrics_file.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=f"metrics.jsonl, {message}.*delete it and checkpoint.pt"):
        train(TINY, begun.path)


def test_metrics_of_other_epochs(begun):
    first, second = begun.metrics()
    begun.write_metrics([second, first])
    with pytest.raises(OSError, match=r"metrics.jsonl lacks epochs that checkpoint.pt has"):
        train(TINY, begun.path)


def test_a_file_in_the_place_of_the_directory(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["train", "--epochs", "1", "--out", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert "/file is a file. Name another one." in said
    with pytest.raises(
        OSError, match=r"run cannot be written \(Not a dir.*choose another directory"
    ):
        train(TINY, tmp_path / "file" / "run")


def test_missing_data_begin_no_run(tmp_path, capsys):
    command = ["train", "--dataset", "mnist", "--data-dir", str(tmp_path), "--out"]
    for options in ([], ["--jobs", "2"]):
        assert main([*command, str(tmp_path / "runs"), *options]) == 2
        assert "padenet data fetch mnist" in capsys.readouterr().err
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("number, said", [(errno.EACCES, "denied"), (errno.EROFS, "Read-only")])
def test_a_directory_that_is_not_ours(tmp_path, number, said, monkeypatch):
    def refuse(path, **options):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OSError, match=rf"run cannot be written \(.*{said}.*\).*choose another"):
        train(TINY, tmp_path / "run")


def test_a_finished_run_where_nothing_can_be_written(tmp_path, capsys, monkeypatch):
    command = ["train", "--activation", "relu", "--epochs", "1", "--out", str(tmp_path)]
    assert main(command) == 0
    *_, last = capsys.readouterr().out.splitlines()

    def refuse(path, *args, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr("padenet.lab.records.files.disk.replacing", refuse)
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [last]
    assert main([*command, "--seed", "1"]) == 2
    assert "cannot be written (Read-only file system)" in capsys.readouterr().err


def test_a_failure_is_one_line(begun):
    begun.metrics_file.write_text("5\n")
    with pytest.raises(ValueError, match="not an object"):
        train(TINY, begun.path)
    reason = json.loads(begun.failure_file.read_text())["reason"]
    assert reason.startswith("ValueError: ") and "\n" not in reason
