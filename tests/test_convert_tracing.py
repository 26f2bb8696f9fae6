"""``convert`` where a trace of the forward would fail or change its meaning."""

import pickle

import pytest
import torch
import torch.nn.functional as F
from formula import assert_near
from networks import QUIET, Basic, Calls
from torch import nn

import padenet
from padenet import convert

pytestmark = QUIET


class Branches(nn.Module):
    """Control flow that depends on data."""

    def __init__(self):
        super().__init__()
        self.lin, self.act, self.inner = nn.Linear(4, 4), nn.GELU(), Calls(F.silu)

    def forward(self, x):
        x = self.act(self.lin(x))
        return F.relu(x) if x.sum() > 0 else self.inner(x)


def test_what_fx_cannot_trace():
    new, report = convert(Branches())
    assert {r.name for r in report.replaced} == {"act", "inner.silu"}
    (left,) = report.left
    assert left.name == "" and "cannot trace" in left.why and "functions" in left.why
    assert "(model): torch.fx cannot trace it" in str(report)
    new(torch.randn(2, 4)).sum().backward()


def forwards():
    relu = F.relu

    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.count = 0

    class Asks(Base):
        def forward(self, x, scale=None):
            return relu(x) if scale is None else relu(x) * scale

    class AsksBoth(Base):
        def forward(self, x, scale=None, shift=None):
            return relu(x) if scale is None and shift is None else relu(x) * scale + shift

    class AsksAlways(Base):
        def forward(self, x, scale):
            return relu(x) if scale is None else relu(x) * scale

    class Counts(Base):
        def forward(self, x):
            self.count += 1
            return relu(x)

    class Makes(Base):
        def forward(self, x):
            return relu(x) + torch.rand(4)

    class Looks(Base):
        def forward(self, x):
            return relu(x[0] if isinstance(x, (tuple, list)) else x)

    class NoGrad(Base):
        def forward(self, x):
            with torch.no_grad():
                return relu(self.lin(x))

    class Decorated(Base):
        @torch.no_grad()
        def forward(self, x):
            return relu(self.lin(x))

    class Any(Base):
        def forward(self, x, **options):
            return relu(x) if options.get("y") is None else x

    class Modes(Base):
        def forward(self, x):
            return relu(x) if self.training else x

    made = (Asks, AsksBoth, AsksAlways, Counts, Makes, Looks, NoGrad, Decorated, Any, Modes)
    return {cls.__name__: cls for cls in made}


REASONS = {
    "Asks": "whether scale is None",
    "AsksBoth": "whether scale and shift is None",
    "AsksAlways": "whether scale is None",
    "Counts": "sets count",
    "Makes": "makes a tensor",
    "Looks": "isinstance",
    "NoGrad": "no_grad",
    "Decorated": "decorated",
    "Any": "**kwargs",
    "Modes": "something else in training",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_a_trace_would_change_is_left(name):
    model = forwards()[name]()
    new, report = convert(model)
    assert not report.replaced and type(new) is type(model)
    assert [REASONS[name] in entry.why for entry in report.left] == [True]
    assert new.count == model.count == 0


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
    """Aliases of what ``+=`` and its like overwrite, an argument among them."""

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


def test_in_place_through_a_view_is_left():
    """What it writes would be lost: the result is read through another tensor."""

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU(inplace=True)

        def forward(self, x):
            x = x * 2
            x[:, :2].tanh_()
            y = self.act(x.view(-1))
            z = F.relu(x.flatten(), inplace=True).sigmoid_()
            return x, y, z, torch.tanh(z * 2)

    new, report = convert(Views())
    assert [entry.was for entry in report.replaced] == ["torch.tanh"]
    assert {entry.name for entry in report.left} == {"act", "tanh", "relu", "sigmoid"}
    x = torch.randn(3, 4)
    for u, v in zip(new(x)[:3], Views()(x)[:3], strict=True):
        assert torch.equal(u, v)


def test_hooks():
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), []
    model[1].register_forward_hook(lambda m, x, y: seen.append(type(m)))
    model[1].register_forward_pre_hook(lambda m, x, kw: seen.append("pre"), with_kwargs=True)
    model[1].register_full_backward_hook(lambda m, dx, dy: seen.append("backward"))
    block = Basic(2, 2)
    block.relu.register_forward_hook(lambda m, x, y: seen.append("relu"))
    block.register_forward_hook(lambda m, x, y: seen.append("block"))
    new, report = convert(model)
    new(torch.randn(2, 3)).sum().backward()
    assert seen == ["pre", padenet.PAU, "backward"] and not report.left
    seen.clear()
    convert(block)[0](torch.randn(1, 2, 3, 3))
    assert seen == ["relu", "relu", "block"]
    model[1]._register_state_dict_hook(lambda *a: None)
    assert "state_dict" in convert(model)[1].left[0].why
