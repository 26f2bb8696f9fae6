"""Prunings as data: cuts of cuts rebuild a model, and what is damaged is refused."""

import json
from dataclasses import replace

import pytest
import torch
from convolutional import Mixed, X, made
from torch import nn

import padenet
from padenet.torch.pruning import Pruning

IMAGES = X.double()


class Gate(nn.Module):
    """A product of two; ``squeeze``: the one is made from the other."""

    def __init__(self, squeeze=False):
        super().__init__()
        self.body = nn.Conv2d(3, 10, 3, padding=1)
        self.inner = nn.Conv2d(10, 4, 1) if squeeze else nn.Identity()
        self.gate = nn.Conv2d(4 if squeeze else 3, 10, 3, padding=1)
        self.out, self.fc, self.squeeze = nn.Conv2d(10, 4, 1), nn.Linear(4, 2), squeeze

    def forward(self, x):
        y = self.body(x).relu()
        if self.squeeze:
            x = self.inner(y.mean((2, 3), keepdim=True)).relu()
        return self.fc(self.out(y * self.gate(x).sigmoid()).mean((2, 3)))


@pytest.mark.parametrize("squeeze", [False, True])
@pytest.mark.parametrize("before", [(20,), (20, 40)])
def test_zeros_that_a_later_stage_needs_are_rebuilt(squeeze, before, tmp_path):
    model = made(Gate(squeeze))
    pruned, pruning = model, None
    for fraction in before:
        pruned, pruning = padenet.prune(pruned, fraction, example=IMAGES, after=pruning)
    together = pruning.filters["gate"].places
    assert pruning.filters["body"].places == together and len(together) == 10 - before[-1] // 10
    for fraction, left in ((60, 4), (80, 2)):
        pruned, pruning = padenet.prune(
            pruned, fraction, example=IMAGES, after=pruning, skip="gate"
        )
        assert pruned.body.spread.width == len(together)
        places = tuple(together[i] for i in pruned.body.spread.places.tolist())
        assert places == pruning.filters["body"].places and len(places) == left
        pruning.save(tmp_path / "pruning.json")
        again = padenet.apply_pruning(model, Pruning.load(tmp_path / "pruning.json"))
        assert torch.equal(again(IMAGES), pruned(IMAGES))
        assert {k: v.shape for k, v in again.state_dict().items()} == {
            k: v.shape for k, v in pruned.state_dict().items()
        }


def test_files_in_which_a_spread_is_true_or_false_are_read():
    model = made(Mixed())
    _, pruning = padenet.prune(model, 30, example=IMAGES)
    values = json.loads(pruning.to_json())
    assert sum(cut["spread"] is not None for cut in values["cuts"].values()) > 0
    for cut in values["cuts"].values():
        cut["spread"] = cut["spread"] is not None
    assert Pruning.from_json(json.dumps(values)) == pruning


def test_a_damaged_pruning_names_the_layer():
    model = Mixed()
    _, pruning = padenet.prune(model, 30, example=X)
    cut = pruning.cuts["left"]
    for places in ((0, 99), (-1, 2), (), (0, 0, 1), (2, 1), (0, "1"), (0, True)):
        outputs = cut.outputs._replace(places=places)
        with pytest.raises(ValueError, match=r"left: the pruning keeps the outputs .* of 5"):
            replace(pruning, cuts={**pruning.cuts, "left": cut._replace(outputs=outputs)})
        with pytest.raises(ValueError, match=r"left: the pruning keeps the filters .* of 5"):
            replace(pruning, filters={**pruning.filters, "left": outputs})
    for outputs in (None, cut.outputs._replace(places=(0, 1))):
        spread = cut._replace(outputs=outputs, spread=cut.outputs)
        with pytest.raises(ValueError, match="left: the pruning spreads other outputs than"):
            replace(pruning, cuts={**pruning.cuts, "left": spread})
    with pytest.raises(TypeError, match=r"pruning='pruning.json' must .*Pruning\.load"):
        padenet.apply_pruning(model, "pruning.json")


def test_steps_are_kept_where_they_are_known():
    first, begun = padenet.prune(Mixed(), 20, example=X)
    _, further = padenet.prune(first, 60, example=X, after=begun)
    assert begun.steps == (20,) and further.steps == (20, 60)
    text = json.loads(begun.to_json())
    del text["steps"]
    old = padenet.Pruning.from_json(json.dumps(text))
    assert old == replace(begun, steps=())
    assert padenet.prune(first, 60, example=X, after=old)[1].steps == ()


@pytest.mark.parametrize(
    "change",
    [
        {"cuts": []},
        {"cuts": {"stem": {"inputs": None, "outputs": None, "spread": 3}}},
        {"cuts": {"stem": None}},
        {"filters": {"stem": {"of": 3, "places": [0, 0, 1]}}},
        {"filters": {"stem": [1, 2]}},
        {"fraction": "x"},
        {"fraction": None},
        {"left": [{"what": "stem"}]},
        {"before": 3},
        None,
    ],
)
def test_a_damaged_file_is_named_with_a_fix(change, tmp_path):
    _, pruning = padenet.prune(Mixed(), 30, example=X)
    text = json.loads(pruning.to_json())
    file = tmp_path / "pruning.json"
    file.write_text(json.dumps({**text, **change} if change else []))
    with pytest.raises(
        ValueError, match=r"pruning\.json does not hold a pruning .*Put back a copy"
    ):
        Pruning.load(file)
