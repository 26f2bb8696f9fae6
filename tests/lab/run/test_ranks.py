"""A run shared by two processes under torchrun."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import padenet
from padenet.lab.data import load
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.learning.batches import make_batches
from padenet.lab.run.ranks import Ranks, join_ranks
from padenet.lab.run.run import train

OPTIONS = {
    **{"activation": "pau", "epochs": 2, "batch_size": 64, "optimizer": "sgd", "lr": 0.05},
    "stabilize": 0.01,
}
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(padenet.__file__).parents[1]),
}
NEEDS_GLOO = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="torch without gloo"
)
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="the processes would need a GPU each")


def torchrun(out, *more):
    options = [f"--{k.replace('_', '-')}={v}" for k, v in OPTIONS.items()]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [sys.executable, *launch, "-m", "padenet", "train", *options, "--out", str(out), *more],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )


@NEEDS_GLOO
@NO_GPU
def test_two_processes_train_as_one(tmp_path):
    """Each takes half of every batch, so the mean gradient is that of the whole batch."""
    run = torchrun(tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("epoch 2/2") == 1  # one of them speaks
    (path,) = tmp_path.iterdir()
    together = RunDirectory(path).read()
    assert together.result["machine"]["processes"] == 2
    train(Config(**OPTIONS), tmp_path / "alone")
    alone = RunDirectory(tmp_path / "alone").read()
    assert together.config == alone.config
    for one, two in zip(alone.metrics, together.metrics, strict=True):
        assert one["test_accuracy"] == pytest.approx(two["test_accuracy"], abs=0.6)  # 2 images
        assert one["test_loss"] == pytest.approx(two["test_loss"], rel=0.02)
    first = [m["train_loss"] for m in (alone.metrics[1], together.metrics[1])]
    assert first[0] == pytest.approx(first[1], rel=1e-3)
    again = torchrun(tmp_path)
    assert again.returncode == 0 and "epoch" not in again.stdout


def test_ranks_share_an_epoch_and_the_test_set():
    data = load("digits")
    seen, tested = [], []
    for rank in range(3):
        ranks = Ranks(rank, 3, rank)
        batches = make_batches(data, torch.device("cpu"), seed=0, batch_size=48, ranks=ranks)
        for found, part in zip((seen, tested), batches, strict=True):
            tickets = list(part.tickets(1))
            assert len(tickets) == len(part)
            found += [i for (index,) in tickets for i in index.tolist()]
    assert len(seen) == len(set(seen)) == 1437 // 48 * 48
    assert sorted(tested) == list(range(360))


def test_a_batch_that_cannot_be_shared():
    with pytest.raises(ValueError, match="Choose a multiple of 3"):
        make_batches(
            load("digits"), torch.device("cpu"), seed=0, batch_size=64, ranks=Ranks(0, 3, 0)
        )


def test_alone_without_torchrun(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_ranks() as ranks:
        assert ranks == Ranks() and ranks.leads
        ranks.wait()


@pytest.mark.parametrize(
    "variables, says",
    [
        (
            {"WORLD_SIZE": "2"},
            "not RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT. Start with torchrun",
        ),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}, "not MASTER_ADDR, MASTER_PORT"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two' .* no number of processes.*unset WORLD_SIZE"),
    ],
)
def test_variables_that_torchrun_did_not_set(monkeypatch, variables, says):
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=says), join_ranks():
        pass


@NEEDS_GLOO
@NO_GPU
def test_one_says_why_and_the_others_leave_quietly(tmp_path):
    """Two processes without torchrun, which would end the second before it notices."""
    train(Config(**OPTIONS), tmp_path / "digits-lenet-pau-s0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", "padenet", "train", "--out", str(tmp_path), "--lr", "0.5"]
    processes = [
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **place, "RANK": str(i), "LOCAL_RANK": str(i)},
        )
        for i in range(2)
    ]
    said = [p.communicate(timeout=60)[1] for p in processes]
    assert [p.returncode for p in processes] == [2, 2]
    assert "holds a run with another config" in said[0] and said[0].count("\n") == 1
    assert "Traceback" not in said[1] and "padenet" not in said[1]
