"""``convert`` on blocks as others write them: what becomes a unit, and what stays."""

import functools

import pytest
import torch
import torch.nn.functional as F
from networks import QUIET, images, seeded, units_of
from torch import nn

from padenet import convert

pytestmark = QUIET


def drop_path(x, drop_prob: float = 0.0, training: bool = False, scale_by_keep: bool = True):
    """timm's."""
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob: float = 0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return drop_path(x, self.drop_prob, self.training)


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim=3):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.act = nn.Linear(dim, 4 * dim), nn.GELU()
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.ones(dim))
        self.drop_path = DropPath(0.5)

    def forward(self, x):
        input = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        if self.gamma is not None:
            x = self.gamma * x
        return input + self.drop_path(x.permute(0, 3, 1, 2))


def hard_sigmoid(x, inplace: bool = False):
    return F.relu6(x.add_(3.0)).div_(6.0) if inplace else F.relu6(x + 3.0) / 6.0


class SqueezeExcite(nn.Module):
    """An early MobileNetV3's, with the gate as a function that is given."""

    def __init__(self, width, gate_fn=hard_sigmoid):
        super().__init__()
        self.conv_reduce, self.act1 = nn.Conv2d(width, 2, 1), nn.ReLU(inplace=True)
        self.conv_expand, self.gate_fn = nn.Conv2d(2, width, 1), gate_fn

    def forward(self, x):
        x_se = F.adaptive_avg_pool2d(x, 1)
        x_se = self.conv_expand(self.act1(self.conv_reduce(x_se)))
        return x * self.gate_fn(x_se)


class MobileNetV3Block(nn.Module):
    def __init__(self, width=3, act=nn.Hardswish):
        super().__init__()
        self.block = nn.Sequential(
            nn.Sequential(nn.Conv2d(width, 8, 1), nn.BatchNorm2d(8), act()),
            nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), act()),
            SqueezeExcite(8, F.hardsigmoid),
            SqueezeExcite(8),
            nn.Conv2d(8, width, 1),
        )

    def forward(self, x):
        result = self.block(x)
        result += x
        return result


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        double = lambda i, o: nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(o, o, 3, padding=1),
            nn.ReLU(True),
        )
        self.down = nn.ModuleList([double(3, 4), double(4, 8)])
        self.up, self.end = nn.ConvTranspose2d(8, 4, 2, 2), double(8, 4)
        self.out = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i + 1 < len(self.down):
                skips.append(x)
                x = F.max_pool2d(x, 2)
        x = torch.cat([self.up(x), skips.pop()], dim=1)
        return torch.sigmoid(self.out(self.end(x)))


class MambaBlock(nn.Module):
    """A gated block with a selective scan in a loop."""

    def __init__(self, d=3, inner=6):
        super().__init__()
        self.in_proj, self.conv1d = nn.Linear(d, 2 * inner), nn.Conv1d(inner, inner, 3, padding=2)
        self.dt_proj, self.out_proj = nn.Linear(inner, inner), nn.Linear(inner, d)
        self.A_log = nn.Parameter(torch.zeros(inner))
        self.activation, self.act = "silu", nn.SiLU()

    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)
        h, gate = self.in_proj(x).chunk(2, dim=-1)
        h = self.act(self.conv1d(h.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        dt = F.softplus(self.dt_proj(h))
        state, outs = torch.zeros_like(h[:, 0]), []
        for t in range(h.shape[1]):
            state = torch.exp(-dt[:, t] * self.A_log.exp()) * state + dt[:, t] * h[:, t]
            outs.append(state)
        y = torch.stack(outs, dim=1)
        return self.out_proj(y * self.act(gate))


class PreAct(nn.Module):
    """A residual block that begins with its activation in place."""

    def __init__(self, d=3):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(d), nn.Conv2d(d, d, 3, padding=1)
        self.relu = functools.partial(F.relu, inplace=True)
        self.short = nn.Conv2d(d, d, 1)

    def forward(self, x):
        out = self.relu(self.bn1(x))
        shortcut = self.short(out) if hasattr(self, "short") else x
        out = self.conv1(out)
        return out + shortcut


MODELS = {
    ConvNeXtBlock: (["act"], []),
    MobileNetV3Block: (
        ["block.0.2", "block.1.2", "block.2.act1", "block.3.act1"],
        ["block.3"],
    ),
    UNet: (["down.0.1", "down.0.3", "down.1.1", "down.1.3", "end.1", "end.3"], ["sigmoid"]),
    MambaBlock: (["act", "act_2", "softplus"], []),
    PreAct: (["relu_2"], []),  # relu is the name of the function
}


@pytest.mark.parametrize("cls", MODELS, ids=lambda c: c.__name__)
def test_blocks(cls):
    done, left = MODELS[cls]
    model = seeded(cls).double().eval()
    new, report = convert(model, aim="near")
    assert [r.name for r in report.replaced] == done, report
    assert [e.name for e in report.left] == left, report
    assert units_of(new).keys() == set(done)
    x = images().double()
    y, z = (m(x.clone()).detach() for m in (model, new))
    assert float((y - z).norm() / y.norm()) < 0.05  # the errors of the starts
    new.train()(x).sum().backward()
    used = [u.a.grad is not None for u in units_of(new).values()]
    assert all(used) or cls is ConvNeXtBlock  # which may drop its path
    if cls is ConvNeXtBlock:
        assert len({tuple(new(x).flatten().tolist()) for _ in range(20)}) == 4  # two images


class NewGELU(nn.Module):
    """transformers', of which GPT and XLM hold one for all layers."""

    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


class Layer(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), act

    def forward(self, x):
        return self.act(self.lin(x))


def test_a_formula_that_layers_share():
    act = NewGELU()
    new, report = convert(nn.Sequential(Layer(act), Layer(act), nn.Linear(4, 4)))
    assert [r.name for r in report.replaced] == ["0.act", "1.act"] and not report.left
    assert new[0].act is not new[1].act


class AlmostSame(nn.Module):
    def forward(self, x):
        return x / (1 + 1e-7) ** 0.5


def test_what_hardly_changes_its_input_is_no_activation():
    _, report = convert(nn.Sequential(nn.Linear(4, 4), AlmostSame(), nn.Linear(4, 4)))
    assert not report.replaced and not report.left
