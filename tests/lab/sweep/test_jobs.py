"""Many runs at once give the numbers of the runs alone, and no run ends another."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from small_runs import numbers_of, small, trainers, wait_for
from tools import ROOT

from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import train
from padenet.lab.sweep.jobs import attempt, in_processes, record_death, run_all, taken_up
from padenet.lab.sweep.turns import in_turns

HERE = ROOT / "tests" / "shared"
CPU = Execution(device="cpu")
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


def test_turns_give_the_numbers_of_the_runs_alone(tmp_path):
    configs = [  # noise, random slopes, a crop: each draws from torch's generator as it trains
        small("rpau"),
        small("rrelu", augment="crop-flip"),
        small("pau", epochs=1, precision="bf16"),
        small("relu", epochs=1, seed=1),
    ]
    outcomes = []
    in_turns(configs, tmp_path / "turns", CPU, jobs=3, report=outcomes.append)
    assert {o.config.name for o in outcomes} == {c.name for c in configs}
    for config in configs:
        torch.rand(7)
        train(config, tmp_path / "alone" / config.name, CPU)
        turns, alone = (numbers_of(tmp_path / way / config.name) for way in ("turns", "alone"))
        assert turns == alone, config.name


def test_turns_leave_the_generator_and_the_switches_as_they_were(tmp_path):
    before = torch.get_rng_state()
    assert not torch.backends.cudnn.benchmark
    seen = []
    in_turns(
        [small(epochs=1), small(epochs=2, seed=1), small(epochs=1, seed=2, precision="bf16")],
        tmp_path,
        CPU,
        jobs=2,
        report=lambda outcome: seen.append(torch.backends.cudnn.benchmark),
    )
    assert seen == [True] * 3  # also for runs that go on after the first has ended
    assert not torch.backends.cudnn.benchmark
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_does_not_stop_the_others(tmp_path, jobs):
    execution = Execution(device="cpu", data_dir=str(tmp_path / "nowhere"))
    outcomes = []
    configs = [small(dataset="mnist"), small(epochs=1)]
    in_turns(configs, tmp_path, execution, jobs, report=outcomes.append)
    states = {o.config.dataset: o.state for o in outcomes}
    assert states == {"mnist": "failed", "digits": "done"}
    reason = json.loads((tmp_path / configs[0].name / "failure.json").read_text())["reason"]
    assert reason.startswith("FileNotFoundError: mnist is not in")
    assert reason in str(outcomes[0])


def test_attempt_says_how_it_ended(tmp_path):
    config = small(epochs=1)
    assert attempt(config, tmp_path, Execution(device="cpu", deadline=0)).state == "unfinished"
    assert not (tmp_path / config.name).exists()
    outcome = attempt(config, tmp_path, CPU)
    assert outcome.state == "done" and outcome.result["epochs"] == 1
    accuracy = outcome.result["test_accuracy"]
    assert str(outcome).startswith(f"{config.name}  test accuracy {accuracy:.2f} %")
    other = attempt(small(epochs=2), tmp_path, CPU)
    assert other.state == "failed" and "another config: epochs is 1 there and 2 here" in str(other)
    wild = attempt(small("prelu", optimizer="sgd", lr=1e30), tmp_path, CPU)
    assert wild.state == "diverged" and "not finite" in str(wild)


def test_a_death_is_recorded_even_before_the_directory_is_there(tmp_path):
    config = small()
    outcome = record_death(config, tmp_path / "out", "gone")
    assert (outcome.state, outcome.reason) == ("failed", "ChildProcessError: gone")
    run = RunDirectory(tmp_path / "out" / config.name).read()
    assert (run.config, run.failure) == (config, "ChildProcessError: gone")
    other = RunDirectory(tmp_path / "other" / config.name)
    other.claim(small(epochs=7))
    other.write_metrics([])
    assert record_death(config, tmp_path / "other", "gone") == outcome
    assert other.failure() == ""  # it is not that run's


def test_taken_up(tmp_path):
    config, directory = small(), RunDirectory(tmp_path / small().name)
    assert not taken_up(config, tmp_path, 0)
    directory.claim(config)
    with directory.locked():
        pass
    os.utime(directory.path / ".lock", (100, 100))
    assert taken_up(config, tmp_path, 100) and not taken_up(config, tmp_path, 101)


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match=r"jobs=0: at least one"):
        run_all([small()], tmp_path, CPU, 0)


def test_nothing_starts_after_the_deadline(tmp_path):
    outcomes = []
    late = Execution(device="cpu", deadline=0)
    run_all([small(), small(seed=1)], tmp_path, late, 1, report=outcomes.append)
    in_processes([small(), small(seed=1)], tmp_path, late, 2, report=outcomes.append)
    assert outcomes == [] and list(tmp_path.iterdir()) == []


@needs_proc
def test_a_run_whose_process_dies_every_time_fails_alone(tmp_path):
    """Its neighbour is lost with each pool, goes on from its checkpoint, and never notices."""
    victim, neighbour = small(epochs=10**6), small("rpau", epochs=4, batch_size=16)
    kills = []

    def kill():
        wait_for((tmp_path / neighbour.name / "checkpoint.pt").exists)
        while len(kills) < 3:
            [pid] = wait_for(lambda: trainers(tmp_path / victim.name) - set(kills))
            os.kill(pid, signal.SIGKILL)
            kills.append(pid)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    outcomes = []
    in_processes([victim, neighbour], tmp_path, CPU, 2, threads=1, report=outcomes.append)
    killer.join()
    states = {o.config.name: o.state for o in outcomes}
    assert states == {victim.name: "failed", neighbour.name: "done"}
    reason = json.loads((tmp_path / victim.name / "failure.json").read_text())["reason"]
    assert reason == "ChildProcessError: its process died 3 times. Is there enough memory?"
    train(neighbour, tmp_path / "alone", CPU)
    assert numbers_of(tmp_path / neighbour.name) == numbers_of(tmp_path / "alone")


SCRIPT = """
import signal
from small_runs import small
from padenet.lab.sweep.jobs import run_all
from padenet.lab.run.execution import Execution
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" would have it ignored
    runs = [small(seed=s, epochs=10**6) for s in (0, 1)]
    run_all(runs, OUT, Execution(device="cpu"), 2, threads=1)
"""


@needs_proc
def test_an_interrupt_leaves_no_process_and_no_failure(tmp_path):
    script = tmp_path / "many.py"
    script.write_text(f"OUT = {str(tmp_path)!r}{SCRIPT}")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    paths = [tmp_path / small(seed=s).name for s in (0, 1)]
    held = lambda: [p for path in paths for p in trainers(path)]
    with subprocess.Popen([sys.executable, script], env=env, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: len(held()) == 2)
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert held() == []
    assert not list(tmp_path.rglob("failure.json"))
