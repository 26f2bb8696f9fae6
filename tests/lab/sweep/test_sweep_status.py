"""Where the runs of a sweep stand, how long they take, and what they gave."""

import os
import time
from argparse import ArgumentTypeError, Namespace

import pytest
from small_runs import small

from padenet.cli.sweep import draw, read_time, say_time
from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.sweep.estimate import pace_of, time_epoch, time_left, time_runs
from padenet.lab.sweep.outcome import Outcome
from padenet.lab.sweep.status import Status, exit_code, look, summarize

CPU = Execution(device="cpu")


@pytest.mark.parametrize(
    "text, seconds", [("90", 90), ("90s", 90), ("9m", 540), ("1h30m", 5400), ("1.5h", 5400)]
)
def test_read_time(text, seconds):
    assert read_time(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "9 m", "m", "1.h", ".5h", "-1h"])
def test_read_time_refuses(text):
    with pytest.raises(ArgumentTypeError, match=r"is no time. Write 90s, 9m or 1h30m"):
        read_time(text)


def test_say_time():
    assert [say_time(t) for t in (5, 600, 7200)] == ["5 s", "10 min", "2 h 00 min"]


@pytest.mark.parametrize(
    "states, code",
    [
        (["done", "done"], 0),
        (["done", "diverged"], 3),
        (["diverged", "begun"], 4),
        (["done", "waiting"], 4),
        (["waiting", "failed", "diverged"], 2),
    ],
)
def test_exit_code(states, code):
    assert exit_code([Status(small(seed=i), s) for i, s in enumerate(states)]) == code


def test_look(tmp_path):
    config, start = small(epochs=9), time.time() - 1
    assert look(config, tmp_path, start).state == "waiting"
    directory = RunDirectory(tmp_path / config.name)
    directory.claim(config)
    directory.write_metrics(
        {"epoch": e, "test_accuracy": 10.0 * e, "seconds": e + 0.5} for e in range(4)
    )
    assert look(config, tmp_path, start) == Status(config, "begun", "", 3, 30.0, 3.5)
    with directory.locked():
        assert look(config, tmp_path, start).state == "running"
    assert look(config, tmp_path).state == "begun"
    directory.write_failure(OSError("disk full"))
    assert look(config, tmp_path, start).reason == "OSError: disk full"


def test_time_left():
    relu, pau = small("relu", epochs=10), small("pau", epochs=10)
    done = Status(relu, "done", epoch=10, epoch_seconds=2.0, result={"status": "done"})
    begun = Status(pau, "begun", epoch=4, epoch_seconds=5.0)
    waiting = [Status(small(a, seed=1, epochs=10), "waiting") for a in ("relu", "elu")]
    statuses = [done, begun, *waiting]
    elu = 10 * (2 + 5) / 2  # the mean of the other activations
    assert time_left(statuses, 1) == 6 * 5 + 10 * 2 + elu
    assert time_left(statuses, 2) == (30 + 20 + elu) / 2
    assert time_left(statuses, 100) == elu  # no sooner than the longest run
    assert time_left(waiting, 1) is None
    assert time_left(waiting, 1, {s.config: 3.0 for s in waiting}) == 60
    assert time_left([done], 1) == 0
    assert pace_of(small(dataset="mnist"), statuses, like=2) is None


def test_steps_are_timed_once_for_a_kind():
    waiting = [Status(small(a, seed=s), "waiting") for s in (0, 1) for a in ("relu", "elu", "pau")]
    found = time_runs(waiting, CPU)
    assert set(found) == {s.config for s in waiting}
    assert len(set(found.values())) == 2
    assert 0 < time_epoch(small(), CPU) < 60


def test_summarize():
    def ended(activation, seed, accuracy, **fields):
        result = {"status": "diverged" if accuracy is None else "done"}
        config = small(activation, seed=seed, **fields)
        return Status(config, result["status"], accuracy=accuracy, result=result)

    statuses = [ended("relu", 0, 90.0), ended("relu", 1, 92.0), ended("pau", 0, 93.0)]
    statuses += [ended("pau", 1, None), ended("pau", 0, 95.0, net="vgg", label="x")]
    assert summarize([*statuses, Status(small("elu"), "waiting")]) == [
        ["", "digits lenet", "digits vgg"],
        ["relu", "91.00 ± 1.41 (2)", "–"],
        ["pau", "93.00 (1), 1 diverged", "–"],
        ["pau-x", "–", "95.00 (1)"],
    ]


def test_live_table(tmp_path):
    console = pytest.importorskip("rich.console")
    runs = [small(), small(seed=1)]
    RunDirectory(tmp_path / runs[0].name).claim(runs[0])
    RunDirectory(tmp_path / runs[0].name).write_failure(ValueError("no [bold] data"))
    directory = RunDirectory(tmp_path / runs[1].name)
    directory.claim(runs[1])
    directory.write_metrics([{"epoch": 1, "test_accuracy": 12.5, "seconds": 30.0}])
    with directory.locked(), open(os.devnull, "w") as nowhere:
        screen = console.Console(record=True, width=100, file=nowhere)
        screen.print(draw(runs, Namespace(out=tmp_path, jobs=1), since=0.0))
    text = screen.export_text()
    assert "1 failed, 1 running, about 30 s left" in text
    assert "failed: ValueError: no [bold] data" in text and "1/2" in text and "12.50 %" in text


def test_unfinished_is_said_without_a_reason():
    assert str(Outcome(small(), "unfinished")) == "digits-lenet-relu-s0  unfinished"
