"""``convert`` and activations that write into their input: who reads it afterwards."""

import pickle

import pytest
import torch
import torch.nn.functional as F
from formula import assert_near
from networks import QUIET, Out, units_of
from torch import nn

from padenet import convert

pytestmark = QUIET


class InPlace(nn.Module):
    """Values that are read after an activation has overwritten them."""

    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.lin(x)
        y = 2 * x
        self.act(x)
        z = x * 3
        torch.tanh_(z)
        return x + y + z


class Augmented(nn.Module):
    """What ``+=`` and its like overwrite is overwritten."""

    def forward(self, x, n=1):
        y, old = x, n
        x += 1
        x *= 2
        x -= 0.5
        x /= 3
        x **= 2
        n += 1
        return torch.tanh(x) + y * n * old


def test_augmented_assignments():
    new, report = convert(Augmented())
    assert len(report.replaced) == 1
    x = torch.randn(5)
    u, v = x.clone(), x.clone()
    expected = Augmented()(u)
    assert_near(new(v), expected - torch.tanh(u) + new.tanh(u), 16)
    assert torch.equal(u, v) and not torch.equal(u, x)
    pickle.loads(pickle.dumps(new))(x)


@pytest.mark.parametrize("share", [False, True])
def test_in_place(share):
    new, _ = convert(InPlace(), share=share)
    x = torch.randn(3, 4)
    h = new.lin(x)
    assert torch.equal(new(x), new.act(h) + 2 * h + new.tanh(new.act(h) * 3))


class Aliased(nn.Module):
    """Other names of what is overwritten, in a branch, by a formula too."""

    def __init__(self):
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x, late=False):
        x = x * 2
        identity = x
        out = self.act(x)
        if late:
            out = F.elu_(out)
        y = out * 1.0
        z = y
        y *= torch.sigmoid(y)
        return out + identity + z * 0.5 + y


@pytest.mark.parametrize("late", [False, True])
def test_in_place_under_several_names(late):
    """Against the original with the units in its place, which then write themselves."""
    new, report = convert(Aliased())
    assert not report.left and units_of(new).keys() == {"act", "elu", "silu"}
    x = torch.randn(6, 4)
    out = new.act(x * 2)
    if late:
        out = new.elu(out)
    y = new.silu(out * 1.0)
    assert torch.equal(new(x, late), out + out + y * 0.5 + y)


def test_in_place_through_a_view_is_left():
    """What it writes would be lost: the result is read through another tensor."""

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.kept = nn.ReLU(inplace=True), []

        def forward(self, x):
            x = x * 2
            x[:, :2].tanh_()
            y = self.act(x.view(-1))
            z = F.relu(x.flatten(), inplace=True).sigmoid_()
            h = x + 1
            self.kept.append(h)
            F.elu_(h)
            return x, y, z, torch.tanh(z * 2) + 1 + x.sum()

    new, report = convert(Views(), everything=True)
    assert [entry.was for entry in report.replaced] == ["torch.tanh"]
    assert {entry.name for entry in report.left} == {"act", "tanh", "relu", "sigmoid", "elu"}
    x = torch.randn(3, 4)
    old = Views()
    for u, v in zip(new(x)[:3], old(x)[:3], strict=True):
        assert torch.equal(u, v)
    assert torch.equal(new.kept[0], old.kept[0])


def test_in_place_on_what_the_caller_reads_again_is_left():
    class Caller(Out):
        def __init__(self, again):
            super().__init__()
            self.block = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))
            self.again = again

        def body(self, x):
            return self.block(x) + x if self.again else self.block(x)

    x = torch.randn(3, 4)
    for again in (True, False):
        model = Caller(again)
        new, report = convert(model)
        assert len(report.replaced) == 1 - again
        assert [e.name for e in report.left] == ["block.0"] * again
        assert torch.equal(new(x), model(x)) or not again


class Residual(nn.Module):
    """``out += x`` reads ``x``: what it gives back is not ``x``."""

    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.lin(x)
        out += x
        return self.act(out)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = Residual(), Residual(), nn.Linear(4, 4)

    def forward(self, x):
        y = self.one(x)
        return self.last(self.two(y) + x + y)


def test_a_residual_that_is_added_in_place_keeps_no_one_from_it():
    _, report = convert(Branches())
    assert [r.name for r in report.replaced] == ["one.act", "two.act"], report
