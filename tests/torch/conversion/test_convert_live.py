"""Whatever a forward draws, reads or writes when it runs, it still does after ``convert``."""

import copy
import io
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from formula import assert_near
from networks import QUIET, units_of
from torch import nn

from padenet import convert

pytestmark = QUIET


class Block(nn.Module):
    """A residual block; a subclass sometimes passes it by."""

    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def branch(self, x):
        return self.last(F.relu(self.lin(x)))

    def drops(self):
        return False

    def forward(self, x):
        if self.training and self.drops():
            return x + 0.0
        return x + self.branch(x)


class ByRand(Block):
    def drops(self):
        return torch.rand(1).item() < 0.5


class ByBernoulli(Block):
    """Stochastic depth as most write it: a factor, not a branch."""

    def forward(self, x):
        if not self.training:
            return x + self.branch(x)
        keep = torch.bernoulli(torch.full((x.shape[0], 1), 0.5))
        return x + self.branch(x) * keep / 0.5


class ByMask(Block):
    def forward(self, x):
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        mask = x.new_empty(shape).bernoulli_(0.5) if self.training else 1.0
        return x + F.relu(self.lin(x)) * mask


class ByRandint(Block):
    def drops(self):
        return torch.randint(2, ()) == 0


class ByRandom(Block):
    def drops(self):
        return random.random() < 0.5


class ByNumpy(Block):
    def drops(self):
        return np.random.rand() < 0.5  # noqa: NPY002


class ByGenerator(Block):
    generator = np.random.default_rng()

    def drops(self):
        return self.generator.uniform() < 0.5


class LayerDrop(nn.Module):
    """fairseq's and transformers': each layer of a list is passed by with a probability."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            if not self.training or np.random.uniform(0, 1) > 0.5:  # noqa: NPY002
                x = x + torch.tanh(layer(x)) * 1.0
        return x


RANDOM = [ByRand, ByBernoulli, ByMask, ByRandint, ByRandom, ByNumpy, ByGenerator, LayerDrop]


def seed(value):
    random.seed(value)
    np.random.seed(value)  # noqa: NPY002
    torch.manual_seed(value)
    ByGenerator.generator = np.random.default_rng(value)


def outputs(model, x, count=24):
    """How many different ones there are, and whether some are the full path's."""
    found = [model.train()(x) for _ in range(count)]
    return {tuple(y.flatten().tolist()) for y in found}, model.eval()(x)


@pytest.mark.parametrize("cls", RANDOM, ids=lambda c: c.__name__)
def test_a_random_choice_is_never_frozen(cls):
    """Converted under 20 seeds: it draws each time, and both ways."""
    seed(0)
    model = cls().double()
    x = torch.randn(1, 4).double()
    for value in range(20):
        seed(value)
        new, report = convert(model)
        assert len(report.replaced) == 1 and not report.left, report
        different, full = outputs(new, x)
        assert len(different) > 1
        assert not torch.equal(full, x)
    seed(5)
    before = [model.train()(x) for _ in range(6)]
    seed(5)
    after = [new.train()(x) for _ in range(6)]
    (unit,) = units_of(new).values()
    gaps = [float((u - v).detach().abs().max()) for u, v in zip(before, after, strict=True)]
    assert max(gaps) < 0.2 and type(unit).__name__ == "PAU"  # the start's error, not a choice


SEEN = []
SCALE = 1.0
FLAG = True


class Config:
    def __init__(self):
        self.scale, self.nested = 1.0, {"shift": 0.0}


class Writes(nn.Module):
    """Side effects through a list, a dict, a child, an attribute, a global list and a buffer."""

    def __init__(self):
        super().__init__()
        self.lin, self.child, self.last = nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 4)
        self.aux, self.d, self.count, self.cfg = [], {}, 0, Config()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        h = F.relu(self.lin(x))
        self.count += 1
        self.aux.append(h.detach())
        self.d["h"] = h.detach()
        self.child.last = h.detach()
        self.mean[:] = h.detach().mean(0)
        SEEN.append(h.detach())
        if FLAG:
            h = h * self.cfg.scale + self.cfg.nested["shift"]
        return self.last(h) * SCALE


def test_side_effects_and_settings_stay(monkeypatch):
    model = Writes()
    SEEN.clear()
    new, report = convert(model)
    assert [r.name for r in report.replaced] == ["relu"] and not report.left
    assert not new.aux and not new.d and new.count == 0 and not SEEN  # nothing was run
    x = torch.randn(3, 4)
    for i in range(2):
        first = new(x)
        h = new.relu(new.lin(x))
        assert new.count == i + 1 and len(new.aux) == i + 1
        for kept in (new.aux[-1], new.d["h"], new.child.last, SEEN[-1]):
            assert torch.equal(kept, h)
    assert torch.equal(new.mean, h.mean(0)) and not model.aux
    new.cfg.scale = 3.0
    assert_near(new(x), new.last(h * 3), 16)
    new.cfg.nested["shift"] = 1.0
    assert_near(new(x), new.last(h * 3 + 1), 16)
    monkeypatch.setitem(globals(), "FLAG", False)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert torch.equal(new(x), 2 * first)
    file = io.BytesIO()
    torch.save(new, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), new(x))
    assert torch.equal(copy.deepcopy(new)(x), new(x))


class Guards(nn.Module):
    """Contexts, ``isinstance``, keyword arguments, a tensor made on the way, nested settings."""

    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, **options):
        x = x[0] if isinstance(x, (tuple, list)) else x
        with torch.no_grad():
            frozen = F.relu(self.lin(x))
        with torch.autocast("cpu", enabled=options.get("cast", False), dtype=torch.bfloat16):
            h = F.gelu(self.lin(x)) + torch.ones(4)
        return self.last(h + frozen)


def test_contexts_and_options_stay():
    new, report = convert(Guards())
    assert [r.name for r in report.replaced] == ["relu", "gelu"] and not report.left
    x = torch.randn(2, 4)
    y = new(x)
    assert torch.equal(new([x]), y)
    assert not torch.equal(new(x, cast=True), y)
    y.sum().backward()
    assert new.relu.a.grad is None and new.gelu.a.grad is not None
