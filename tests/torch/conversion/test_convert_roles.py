"""``convert`` replaces hidden activations: gates, outputs and weights stay, unless asked for."""

import pytest
import torch
import torch.nn.functional as F
from networks import QUIET, units_of
from torch import nn

from padenet import convert

pytestmark = QUIET

GATE, OUTPUT, NORMAL, UNSEEN = "a gate", "leaves the model", "it normalises", "cannot be seen"


class SqueezeExcitation(nn.Module):
    """torchvision's: the scale comes out of a Sequential."""

    def __init__(self, width=4):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(width, 2, 1), nn.Conv2d(2, width, 1)
        self.activation, self.scale_activation = nn.SiLU(inplace=True), nn.Sigmoid()

    def _scale(self, x):
        scale = self.activation(self.fc1(self.avgpool(x)))
        return self.scale_activation(self.fc2(scale))

    def forward(self, x):
        scale = self._scale(x)
        return scale * x


class SELayer(nn.Module):
    """The first SENet's."""

    def __init__(self, width=4):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        lin = nn.Linear(width, 2), nn.Linear(2, width)
        self.fc = nn.Sequential(lin[0], nn.ReLU(inplace=True), lin[1], nn.Sigmoid())

    def forward(self, x):
        b, c, _, _ = x.size()
        y = self.pool(x).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        return x * y.expand_as(x)


class HardSE(SELayer):
    """MobileNetV3's, with its sigmoid by hand."""

    def forward(self, x):
        y = self.fc[:3](self.pool(x).flatten(1))
        return x * (F.relu6(y + 3) / 6)[:, :, None, None]


class AttentionGate(nn.Module):
    """Attention U-Net's."""

    def __init__(self):
        super().__init__()
        self.W_g, self.W_x = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.psi = nn.Sequential(nn.Conv2d(4, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x, g=None):
        g = x if g is None else g
        psi = self.psi(self.relu(self.W_g(g) + self.W_x(x)))
        psi = F.interpolate(psi, size=x.shape[2:])
        return x * psi


class GRUCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(4, 12), nn.Linear(4, 12)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 4)
        for step in x.mean((2, 3))[None].expand(3, -1, -1):
            (rx, zx, nx), (rh, zh, nh) = self.x(step).chunk(3, 1), self.h(h).chunk(3, 1)
            r, z = torch.sigmoid(rx + rh), torch.sigmoid(zx + zh)
            h = (1 - z) * torch.tanh(nx + r * nh) + z * h
        return h


class LSTMCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 16)

    def forward(self, x):
        i, f, g, o = self.lin(x.mean((2, 3))).chunk(4, 1)
        c = torch.sigmoid(f) * i + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c)


class Mix(nn.Module):
    """Gates through ``lerp``, ``einsum`` and ``torch.mul``, in a helper module and a method."""

    class Scale(nn.Module):
        def forward(self, x, gate):
            return torch.mul(x, gate)

    def __init__(self):
        super().__init__()
        self.lin, self.scale = nn.Linear(4, 4), self.Scale()

    def forward(self, x):
        h = self.lin(x.mean((2, 3)))
        a = torch.lerp(h, 2 * h + 1, torch.sigmoid(self.lin(h)))
        b = torch.einsum("bi,bi->bi", a, torch.sigmoid(self.lin(a)))
        c = self.scale(b, gate=torch.sigmoid(self.lin(b)).unsqueeze(0)[0])
        return self.lin(c * (1 - torch.sigmoid(self.lin(c))))


class Weights(nn.Module):
    """Attention without softmax: divided by its own sum."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        w = F.softplus(self.lin(x.mean((2, 3))))
        return self.lin(w / w.sum(-1, keepdim=True))


GATES = {
    SqueezeExcitation: (["activation"], ["scale_activation"], GATE),
    SELayer: (["fc.1"], ["fc.3"], GATE),
    HardSE: (["fc.1"], ["fc.3", "relu6"], GATE),
    AttentionGate: (["relu"], ["psi.2"], GATE),
    GRUCell: ([], ["sigmoid", "sigmoid_2", "tanh"], GATE),
    LSTMCell: ([], ["sigmoid", "sigmoid_2", "sigmoid_3", "tanh", "tanh_2"], GATE),
    Mix: ([], ["sigmoid", "sigmoid_2", "sigmoid_3", "sigmoid_4"], GATE),
    Weights: ([], ["softplus"], NORMAL),
}


@pytest.mark.parametrize("cls", GATES, ids=lambda c: c.__name__)
def test_gates_stay(cls):
    done, left, why = GATES[cls]
    model = nn.Sequential(cls())
    new, report = convert(model)
    assert [r.name for r in report.replaced] == [f"0.{n}" for n in done], report
    assert {entry.name for entry in report.left} == {f"0.{n}" for n in left}, report
    assert all(why in entry.why or UNSEEN in entry.why for entry in report.left)
    x = torch.randn(2, 4, 3, 3)
    new(x).sum().backward()
    new, report = convert(model, everything=True)
    assert len(report.replaced) == len(done) + len(left) and not report.left
    new(x)
    name = f"0.{left[0]}"
    assert units_of(convert(model, only=name)[0]).keys() == {name}


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


class GLU(nn.Module):
    """SwiGLU and GEGLU: what multiplies is unbounded, the hidden activation of its branch."""

    def __init__(self, act):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(4, 4) for _ in range(3))
        self.act = act

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.up(x))


def test_unbounded_gates_are_replaced():
    for act, was in ((nn.SiLU(), "SiLU"), (F.gelu, "F.gelu"), (F.relu, "F.relu")):
        _, report = convert(GLU(act))
        assert [r.was for r in report.replaced] == [was] and not report.left
    _, report = convert(GLU(torch.sigmoid))
    assert not report.replaced and GATE in report.left[0].why


class Features(nn.Module):
    """Feature maps that the net goes on with are hidden; the last one is an output."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(3))
        self.gamma = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        first = F.relu(self.layers[0](x))
        second = F.relu(self.layers[1](first))
        third = torch.tanh(self.layers[2](second)) * self.gamma + x
        return [first, second, third, F.elu(third)]


def test_features():
    _, report = convert(Features())
    assert [r.name for r in report.replaced] == ["relu", "relu_2", "tanh"]
    assert [(e.name, OUTPUT in e.why) for e in report.left] == [("elu", True)]


def test_where_nothing_is_known_bounded_activations_stay():
    scope = {"nn": nn}
    exec(
        "class Unread(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b, self.c = nn.ReLU(), nn.Sigmoid(), nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        "        return self.c(self.a(x)) * self.b(x)\n",
        scope,
    )
    _, report = convert(scope["Unread"]())
    assert [r.name for r in report.replaced] == ["a"]
    assert {e.name for e in report.left if UNSEEN in e.why} == {"b"}
    assert any("source cannot be read" in e.why for e in report.left)


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = (
            torch.ao.quantization.QuantStub(),
            torch.ao.quantization.DeQuantStub(),
        )
        self.conv, self.pool, self.relu = nn.Conv2d(3, 4, 1), nn.MaxPool2d(1), nn.ReLU()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        x = self.relu(self.pool(self.conv(self.quant(x))))
        x = self.dequant(x).mean((2, 3))
        return self.lin(F.relu(x))


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_input_is_left():
    model = Quantised().eval()
    model.lin.qconfig = None
    model.qconfig = torch.ao.quantization.default_qconfig
    ready = torch.ao.quantization.prepare(model)
    x = torch.randn(2, 3, 4, 4)
    ready(x)
    new, report = convert(torch.ao.quantization.convert(ready))
    assert [r.name for r in report.replaced] == ["relu_2"], report
    assert [(e.name, e.why) for e in report.left] == [("relu", "its input is quantised")]
    new(x)


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
