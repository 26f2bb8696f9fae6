"""``convert`` leaves what leaves the model: outputs, however they are handed over."""

import pytest
import torch
import torch.nn.functional as F
from networks import QUIET
from torch import nn

from padenet import convert

pytestmark = QUIET

GATE, OUTPUT, NORMAL, UNSEEN = "a gate", "leaves the model", "it normalises", "cannot be seen"


class Head(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.Tanh()
        self.last = last

    def forward(self, x):
        return self.last(self.act(self.lin(x)))


class Outputs(nn.Module):
    """A dict, a tuple and an object of outputs, through methods and shapes."""

    class Answer:
        def __init__(self, **fields):
            self.__dict__.update(fields)

    def __init__(self, kind):
        super().__init__()
        self.body, self.kind, self.last = nn.Linear(4, 4), kind, nn.Linear(4, 4)

    def head(self, h):
        return torch.sigmoid(self.last(h)).squeeze(-1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        p = self.head(h)
        if self.kind == "dict":
            out = {}
            out["p"] = p
            return {"logits": self.last(h), **out}
        if self.kind == "object":
            return self.Answer(p=p, n=len(x))
        return (p.view(-1), [self.last(h)]) if self.kind == "tuple" else 2 * p - 1


@pytest.mark.parametrize("kind", ["dict", "object", "tuple", "scaled"])
def test_what_leaves_the_model_stays(kind):
    _, report = convert(Outputs(kind))
    assert [r.name for r in report.replaced] == ["tanh"], report
    assert [(e.name, OUTPUT in e.why) for e in report.left] == [("sigmoid", True)]
    _, report = convert(Outputs(kind), everything=True)
    assert len(report.replaced) == 2


def test_the_last_module_stays():
    """However deep, and through what does nothing to each number."""
    for last in (nn.Sigmoid(), nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Flatten())):
        for model in (Head(last), nn.Sequential(Head(last)), nn.Sequential(*Head(last).children())):
            new, report = convert(model)
            assert [r.was for r in report.replaced] == ["Tanh"], report
            assert [OUTPUT in entry.why for entry in report.left] == [True]
            p = new(100 * torch.randn(50, 4)).detach()
            assert float(p.min()) >= 0 and float(p.max()) <= 1
    parallel = nn.DataParallel(Head(nn.Sigmoid()))
    assert [r.name for r in convert(parallel)[1].replaced] == ["module.act"]


def test_a_probability_can_still_be_trained_on():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
    new, _ = convert(model)
    optimizer = torch.optim.SGD(new.parameters(), lr=1.0)
    x = 10 * torch.randn(64, 4)
    for _ in range(20):
        loss = F.binary_cross_entropy(new(x)[:, 0], (x[:, 0] > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Held(nn.Module):
    """A probability in a container, in as many ways as there are to put it there."""

    def __init__(self, way):
        super().__init__()
        self.lin, self.last, self.way = nn.Linear(4, 4), nn.Linear(4, 4), way

    def forward(self, x):
        return getattr(self, self.way)(torch.sigmoid(self.lin(x)), self.last(x))

    def updated(self, p, h):
        out = {"p": p}
        out.update({"h": h})
        out.update(more=h)
        return out["p"]

    def called(self, p, h):
        return dict(p=p, h=h)["p"]

    def joined(self, p, h):
        out = {"h": h}
        out |= {"p": p}
        return out["p"]

    def spread(self, p, h):
        out = {**{"p": p}, "h": h}
        return out["p"]

    def by_default(self, p, h):
        out = {"h": h}
        out.setdefault("p", p)
        return out["p"]

    def keyed(self, p, h):
        out = {}
        for key, value in (("h", h), ("p", p)):
            out[key] = value
        return out["p"]

    def inserted(self, p, h):
        out = [h]
        out.insert(0, p)
        return out[0]

    def repeated(self, p, h):
        return ([p] * 2)[1]

    def perhaps(self, p, h):
        out = []
        if h.sum() > 0:
            out.append(h)
        out.append(p)
        out.append(h)
        return out[0]

    def ranked(self, p, h):
        return sorted([p, h], key=lambda t: float(t.sum()))[1]


@pytest.mark.parametrize("way", [name for name in vars(Held) if not name.startswith("_")][1:])
def test_outputs_in_containers_stay(way):
    _, report = convert(Held(way))
    assert not report.replaced and len(report.left) == 1, report


class Chance(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.cost = nn.Linear(4, 4), nn.BCELoss()

    def forward(self, x):
        p = torch.sigmoid(self.lin(x))
        q = torch.sigmoid(self.lin(p))
        r = torch.sigmoid(self.lin(q))
        return torch.bernoulli(p) + self.cost(q, p) + F.binary_cross_entropy(r, q)


def test_probabilities_that_stay_inside_stay():
    new, report = convert(Chance())
    assert [e.why for e in report.left] == ["is taken as a probability"] * 3
    new(10 * torch.rand(8, 4))
