"""Zeros in the places of removed filters: where they may be put, and where they live."""

import pytest
import torch
import torch.nn.functional as F
from convolutional import X, made
from torch import nn

import padenet
from padenet.torch.pruning.spread import Spread

IMAGES = X.double()


class Shifted(nn.ReLU):
    """A ReLU by its class alone."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return F.relu(x) + self.shift


class Sum(nn.Module):
    def __init__(self, act, add=torch.add):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1)
        self.c3, self.fc, self.act, self.add = nn.Conv2d(8, 8, 3), nn.Linear(8, 2), act, add

    def forward(self, x):
        a, b = self.act(self.c1(x)), self.act(self.c2(x))
        return self.fc(self.c3(self.add(a, b)).mean((2, 3)))


def through_a_view(x):
    x.flatten(1).sigmoid_()
    return x


def before_its_view(x):
    view = x.view(x.shape)
    x.sigmoid_()
    return view


def onto_a_view(x):
    x.flatten(1).add_(1)
    return x


@pytest.mark.parametrize(
    "act, why",
    [
        (Shifted(), "it is added to, or multiplied with, other channels"),
        (through_a_view, "it is changed in place through a view of it"),
        (before_its_view, "it is changed in place through a view of it"),
        (onto_a_view, "it is changed in place through a view of it"),
    ],
)
def test_zeros_are_not_put_before_what_makes_something_of_them(act, why):
    model = made(Sum(act))
    with pytest.raises(ValueError, match=f"c1: {why}; c2: {why}"):
        padenet.prune(model, 50, example=IMAGES)


@pytest.mark.parametrize("act", [F.relu_, nn.ReLU(inplace=True), lambda x: x.tanh_().mul_(2)])
@pytest.mark.parametrize("add", [torch.add, torch.Tensor.add_, lambda a, b: sum([a, b])])
def test_a_channel_that_both_have_lost_is_zero_in_the_sum(act, add):
    model = made(Sum(act, add))
    pruned, pruning = padenet.prune(model, 50, example=IMAGES)
    lost = [set(range(8)) - set(pruning.filters[n].places) for n in ("c1", "c2")]
    seen = []
    pruned.c3.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    pruned(IMAGES)
    for i in range(8):
        assert bool(seen[0][:, i].any()) == (i not in lost[0] & lost[1])
    assert seen[0].shape[1] == 8


def test_what_a_view_adds_to_an_output_stays():
    class Output(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 6, 1), nn.Conv2d(4, 6, 1)

        def forward(self, x):
            x = self.stem(x).relu()
            y = self.a(x)
            y.view(y.shape).add_(self.b(x))
            return y

    pruned, pruning = padenet.prune(made(Output()), 50, example=IMAGES, skip="a")
    assert [left.name for left in pruning.left] == ["a", "b"] and pruned.b.out_channels == 6
    assert len(pruning.filters["stem"].places) == 2


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, for index_copy_
def test_each_image_by_itself():
    pruned, _ = padenet.prune(made(Sum(nn.ReLU())), 50, example=IMAGES)
    assert isinstance(pruned.c1.spread, Spread)
    each = torch.func.vmap(lambda image: pruned(image[None])[0])(IMAGES)
    torch.testing.assert_close(each, pruned(IMAGES), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", ["assign", "empty", "meta and back"])
def test_places_survive_a_model_without_numbers(way):
    model = made(Sum(nn.ReLU()))
    pruned, pruning = padenet.prune(model, 50, example=IMAGES)
    if way == "meta and back":
        again = padenet.apply_pruning(model, pruning).to("meta")
    else:
        with torch.device("meta"):
            again = padenet.apply_pruning(Sum(nn.ReLU()).double().to("meta"), pruning)
    assert all(p.is_meta for p in again.parameters())
    assert again(IMAGES.to("meta")).shape == (2, 2)
    if way != "assign":
        again.to_empty(device="cpu")
    again.load_state_dict(pruned.state_dict(), assign=way == "assign")
    assert "c1.spread.places" not in again.state_dict()
    assert torch.equal(again(IMAGES), pruned(IMAGES))
    assert again.c1.spread.places.tolist() == list(pruning.filters["c1"].places)
