"""Runs that ``torch.compile`` speeds up."""

from dataclasses import replace

import pytest
import torch
from small_runs import small

from padenet.experiments.run import Place, train
from padenet.experiments.store import RunDirectory

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, inside dynamo
CPU = Place(device="cpu")


def test_compiled_runs_are_the_same_up_to_rounding(tmp_path):
    """And one that was cut goes on to the same bits; two seeds share the code."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    compiled = replace(CPU, compile=True)
    config = small("pau", net="lenet")
    results = {}
    for name, place in (("plain", CPU), ("compiled", compiled)):
        results[name] = train(config, tmp_path / name, place)
        assert results[name]["machine"]["compile"] == place.compile
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
        Place(compile=True, deterministic=True)
