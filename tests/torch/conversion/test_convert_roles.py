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
