"""Runs on a GPU: graphs, several runs in turns, resuming. All with repeatable operations."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from small_runs import numbers_of
from torch._dynamo.utils import counters

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import steps, train
from padenet.lab.sweep.turns import in_turns

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.no_poison,
]
GPU = Execution(device="cuda", deterministic=True)
SMALL = Config(activation="pau", epochs=2, batch_size=256, stabilize=0.01)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("activation", ["relu", "pau", "apl"])
def test_a_graph_does_the_same_steps(tmp_path, optimizer, activation):
    """The warm-up leaves no trace: the first replay starts where the run does."""
    config = replace(
        SMALL,
        activation=activation,
        optimizer=optimizer,
        momentum=0.5,
        lr_decay=0.5,
        clip_norm=5.0,
        augment="crop-flip",
    )
    train(config, tmp_path / "graph", GPU)
    train(config, tmp_path / "eager", replace(GPU, graph=False))
    assert numbers_of(tmp_path / "graph") == numbers_of(tmp_path / "eager")


@pytest.mark.parametrize("activation", ["pau", "rpau", "rrelu"])
def test_stopped_and_continued_is_the_same_run(tmp_path, activation, monkeypatch):
    monkeypatch.setattr("padenet.lab.run.run.WRITE_EVERY", 0.0)
    config = replace(SMALL, activation=activation, epochs=3)
    train(config, tmp_path / "whole", GPU)
    for count, _ in enumerate(steps(config, tmp_path / "cut", GPU)):
        if count == 12:
            break
    train(config, tmp_path / "cut", GPU)
    assert numbers_of(tmp_path / "cut") == numbers_of(tmp_path / "whole")


def test_runs_in_turns_are_those_alone(tmp_path):
    """Three at a time, of different lengths, with noise: none feels the others."""
    configs = [
        replace(SMALL, activation=activation, seed=seed, epochs=1 + seed)
        for activation in ("rpau", "relu")
        for seed in range(3)
    ]
    in_turns(configs, tmp_path / "turns", GPU, 3)
    for config in configs:
        train(config, tmp_path / "alone" / config.name, GPU)
        assert numbers_of(tmp_path / "turns" / config.name) == numbers_of(
            tmp_path / "alone" / config.name
        )


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("net", ["lenet", "vgg8"])
def test_precisions_train(tmp_path, net, precision):
    config = replace(SMALL, net=net, precision=precision, epochs=3)
    assert train(config, tmp_path, GPU)["test_accuracy"] > 60


def test_memory_comes_back(tmp_path):
    """The pools of graphs are freed with their runs: what stays is that of the lanes' streams."""
    reserved, seeds = [], iter(range(99))
    for count in (2, 2, 12):
        in_turns([replace(SMALL, seed=next(seeds)) for _ in range(count)], tmp_path, GPU, 2)
        reserved.append(torch.cuda.memory_reserved())
    two_runs, twelve = (b - a for a, b in pairwise(reserved))
    assert twelve <= two_runs + 2**25


@pytest.mark.filterwarnings("ignore")  # what torch says of its own parts and of TensorFloat32
@pytest.mark.parametrize("activation", ["relu", "pau", "rpau", "maxout"])
def test_a_compiled_net_trains_as_well(tmp_path, activation):
    """Up to rounding, which grows with every step; nets of one kind share their code."""
    compiled = Execution(device="cuda", compile=True)
    config = replace(SMALL, activation=activation, epochs=3)
    plain = train(config, tmp_path / "plain", GPU)
    made = train(config, tmp_path / "compiled", compiled)
    again = [replace(config, seed=seed) for seed in (1, 2)]
    before = counters["stats"]["unique_graphs"]
    in_turns(again, tmp_path, compiled, 2)
    assert counters["stats"]["unique_graphs"] == before
    assert made["machine"]["compile"] and not plain["machine"]["compile"]
    first, second = (RunDirectory(tmp_path / n).metrics()[1] for n in ("plain", "compiled"))
    assert first["train_loss"] == pytest.approx(second["train_loss"], rel=0.02)
    assert all((tmp_path / c.name / "result.json").exists() for c in again)
