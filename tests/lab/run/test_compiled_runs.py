"""Runs that ``torch.compile`` speeds up."""

from dataclasses import replace

import pytest
import torch
from small_runs import small

from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import train

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, inside dynamo
CPU = Execution(device="cpu")


def test_compiled_runs_are_the_same_up_to_rounding(tmp_path):
    """And one that was cut goes on to the same bits; two seeds share the code."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    compiled = replace(CPU, compile=True)
    config = small("pau", net="lenet")
    results = {}
    for name, execution in (("plain", CPU), ("compiled", compiled)):
        results[name] = train(config, tmp_path / name, execution)
        assert results[name]["machine"]["compile"] == execution.compile
    first, second = (RunDirectory(tmp_path / name).metrics() for name in results)
    for a, b in zip(first[:2], second[:2], strict=True):
        assert a["test_loss"] == pytest.approx(b["test_loss"], rel=1e-3)
    graphs = counters["stats"]["unique_graphs"]
    cut = replace(compiled, deadline=0.0)
    assert train(config, tmp_path / "cut", cut) is None
    result = train(config, tmp_path / "cut", compiled)
    assert result["test_loss"] == results["compiled"]["test_loss"]
    assert counters["stats"]["unique_graphs"] == graphs


def test_compiled_and_deterministic_is_refused():
    with pytest.raises(ValueError, match="Leave out either"):
        Execution(compile=True, deterministic=True)


def test_a_run_goes_on_as_it_was_begun(tmp_path):
    config = small()
    assert train(config, tmp_path, replace(CPU, deadline=0.0)) is None
    with pytest.raises(ValueError, match="begun without --compile and would be resumed with"):
        train(config, tmp_path, replace(CPU, compile=True))


def test_without_a_compiler_the_error_says_so(tmp_path, monkeypatch):
    from torch._inductor.exc import InductorError

    def broken(*args):
        raise InductorError(FileNotFoundError("no g++\nmany lines"), "")

    monkeypatch.setattr("padenet.lab.run.learning.learner.Learner._train_step", broken)
    with pytest.raises(ValueError, match=r"cannot make code here \(InductorError.*Leave out"):
        train(small(), tmp_path, replace(CPU, compile=True))
    assert "Leave out" in (tmp_path / "failure.json").read_text()
