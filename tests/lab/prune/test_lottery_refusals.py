"""What a lottery cannot do is refused before anything is trained or written."""

from dataclasses import replace

import pytest
import torch

import padenet
from padenet.cli import main
from padenet.lab.data import load
from padenet.lab.prune.lottery import lottery
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.learning.model import build_net
from padenet.lab.sweep.recipes import paper

TINY = replace(paper(Config(activation="pau")), epochs=1, batch_size=256)


def test_an_unknown_net_is_named(tmp_path, capsys):
    errors = []
    for command in ("prune", "train"):
        assert main([command, "--net", "lenett", "--out", str(tmp_path), "--quiet"]) == 2
        errors.append(capsys.readouterr().err)
    assert "unknown net 'lenett'. Did you mean 'lenet'?" in errors[0]
    assert errors[0].splitlines()[-1] == errors[1].splitlines()[-1].replace("train", "prune")


@pytest.mark.parametrize("fractions", [(), (20, 10), (10, 10 + 1e-7), (0, 10), (50, 100)])
def test_bad_fractions_are_refused_before_anything_is_written(fractions, tmp_path):
    with pytest.raises(ValueError, match="must be percentages between 0 and 100 that rise"):
        list(lottery(TINY, tmp_path, fractions))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "fractions, what",
    [
        ((0.6, 20), r"fraction=0\.6 removes no filter: .* does is 0\.84\."),
        ((20, 20.5, 30), r"fraction=20\.5 removes no further filter: .* does is 20\.84\."),
    ],
)
def test_a_stage_in_which_nothing_goes_is_refused(fractions, what, tmp_path):
    with pytest.raises(ValueError, match=what):
        list(lottery(TINY, tmp_path, fractions))
    assert not list(tmp_path.iterdir())


@pytest.fixture
def pruned_run(tmp_path):
    """The directory of a stage by 20 %, as it is before training."""
    _, pruning = padenet.prune(
        build_net(TINY, load("digits")), 20, example=torch.zeros(2, 1, 32, 32)
    )
    path = tmp_path / "digits-lenet-pau-p20-s0"
    path.mkdir()
    pruning.save(path / "pruning.json")
    return path


def test_a_pruned_run_is_not_taken_for_the_whole_net(pruned_run):
    with pytest.raises(
        ValueError, match=r"-p20-s0 holds a pruned net.* padenet prune, or choose another label"
    ):
        list(lottery(replace(TINY, label="p20"), pruned_run.parent, (60,)))
    assert [p.name for p in pruned_run.parent.iterdir()] == [pruned_run.name]
    assert [p.name for p in pruned_run.iterdir()] == ["pruning.json"]


def test_a_whole_run_is_not_taken_for_a_stage(tmp_path):
    RunDirectory(tmp_path / "digits-lenet-pau-p20-s0").claim(replace(TINY, label="p20"))
    with pytest.raises(ValueError, match=r"-p20-s0 holds a run without pruning\.json"):
        list(lottery(TINY, tmp_path, (20,)))
    assert [p.name for p in tmp_path.iterdir()] == ["digits-lenet-pau-p20-s0"]


def test_a_damaged_pruning_is_named_by_the_command(pruned_run, capsys):
    (pruned_run / "pruning.json").write_text('{"cuts": []}')
    argv = ["prune", "--net", "lenet", "--activation", "pau", "--fractions", "20", "--quiet"]
    assert main([*argv, "--out", str(pruned_run.parent)]) == 2
    assert "pruning.json does not hold a pruning" in capsys.readouterr().err
