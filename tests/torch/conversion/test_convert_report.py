"""No activation is passed over in silence: it is a unit, or the report says why it is none."""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from networks import QUIET, Net
from torch import nn

from padenet import convert

pytestmark = QUIET


class Helper:
    def __init__(self, module=None):
        self.module, self.f = module, F.elu

    def act(self, x):
        return F.relu(x)

    def __call__(self, x):
        return torch.tanh(x)

    def run(self, x):
        return self.module(x)


class OfAnObject(Net):
    def prepare(self):
        self.helper = Helper()

    def body(self, x):
        return self.helper(self.helper.act(self.helper.f(x)))


class OfAnObjectMade(Net):
    def body(self, x):
        return Helper().act(x) + Helper()(x)


class OfAClassMade(Net):
    def body(self, x):
        class Acts:
            def relu(self, x):
                return F.relu(x)

        return Acts().relu(x)


class DefaultOfForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, act=F.relu, *, late=torch.tanh):
        return self.last(late(act(self.lin(x))))


class DefaultOrOther(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.GELU()

    def forward(self, x, act=None, **more):
        act = act or self.act
        return self.lin(more.get("other", F.relu)(act(self.lin(x))))


def tanh_gelu(x):
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1.0 + 0.044715 * x * x)))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is deprecated
    scripted = torch.jit.script(tanh_gelu)


class GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return scripted(x)

    @staticmethod
    def backward(ctx, dy):
        return dy


class BloomGELU(nn.Module):
    def forward(self, x):
        return GELU.apply(x) if self.training else scripted(x)


class Bloom(Net):
    def prepare(self):
        self.act = BloomGELU()

    def body(self, x):
        return self.act(x)


@torch.no_grad()
def decorated(x):
    return F.relu(x)


class Decorated(Net):
    def body(self, x):
        return decorated(x)


class DecoratedInside(Net):
    def body(self, x):
        @functools.lru_cache
        def act(x):
            return F.relu(x)

        return act(x)


class Given(Net):
    def body(self, x):
        x = torch.vmap(F.relu)(torch.vmap(lambda row: F.elu(row))(x))
        return functools.reduce(lambda y, f: f(y), [torch.tanh], x)


class LookedUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, name="relu"):
        return self.lin(getattr(F, name)(getattr(self.lin(x), "tanh")()))  # noqa: B009


class Made(Net):
    def body(self, x):
        return nn.ReLU()(x)


class Calls(nn.Module):
    def __call__(self, x):
        return F.relu(x)


class OwnCall(Net):
    def prepare(self):
        self.act = Calls()

    def body(self, x):
        return self.act(x)


class InAHook(Net):
    def prepare(self):
        self.lin.register_forward_hook(lambda module, args, y: F.relu(y))

    def body(self, x):
        return x


LEFT = {
    OfAnObject: ["elu: f belongs to", "relu: act belongs to", "tanh: Helper cannot"],
    OfAnObjectMade: ["relu: act cannot be followed", "tanh: Helper is made in the forward"],
    OfAClassMade: ["relu: Acts is a class made in the forward"],
    DefaultOfForward: ["relu: it is the default of the argument act", "tanh: it is the default"],
    DefaultOrOther: ["its call cannot be followed", "relu: it is one of several functions"],
    Bloom: ["tanh: GELU.apply cannot", "tanh: tanh_gelu, a scripted function, cannot"],
    Decorated: ["relu: decorated cannot be followed"],
    DecoratedInside: ["F.relu: what it is called with is not a tensor of the forward"],
    Given: [
        "relu: it is given to vmap",
        "F.elu: what it is called with is not a tensor of the forward",
        "tanh: it is given to reduce",
    ],
    LookedUp: ["relu: it is looked up by getattr", "tanh: it is looked up by getattr"],
    Made: ["ReLU: it is made in the forward"],
    OwnCall: ["relu: Calls.__call__ cannot be followed"],
    InAHook: ["relu: it is in a hook"],
}


@pytest.mark.parametrize("cls", LEFT, ids=lambda c: c.__name__)
def test_what_cannot_be_followed_is_told(cls):
    model = cls()
    new, report = convert(model)
    whys = [entry.why for entry in report.left]
    assert not report.replaced and len(whys) == len(LEFT[cls]), report
    assert all(any(why.startswith(known) for why in whys) for known in LEFT[cls]), report
    x = torch.randn(3, 4)
    assert torch.equal(new.eval()(x), model.eval()(x))


class Follows(Net):
    """Defaults of functions inside, and a static method of an object's class."""

    def body(self, x):
        def act(y, f=F.relu, *, g=torch.tanh):
            return g(f(y))

        return (lambda y, f=F.elu: f(y))(act(x))


def test_defaults_of_functions_inside_are_followed():
    _, report = convert(Follows())
    assert sorted(r.was for r in report.replaced) == ["F.elu", "F.relu", "torch.tanh"], report


def test_functions_of_a_class_without_a_source_are_told():
    scope = {"nn": nn, "F": F}
    exec(
        "class Unread(nn.Module):\n"
        "    def act(self, x):\n"
        "        return F.relu(x)\n"
        "    def forward(self, x):\n"
        "        return self.act(x)\n",
        scope,
    )
    _, report = convert(nn.Sequential(nn.Linear(4, 4), scope["Unread"](), nn.Linear(4, 4)))
    assert [(e.name, e.why[:28]) for e in report.left] == [("1", "its source cannot be read (t")]


class Unseen(Net):
    """Modules that are called where it is not seen, not called, and not called as things are."""

    flag = False

    def prepare(self):
        self.given, self.kept, self.idle, self.unused = (nn.GELU() for _ in range(4))

    def body(self, x):
        x = torch.vmap(self.given)(x)
        table = {"gelu": self.kept}
        return self.idle(x) if self.flag else table["gelu"](x)


def test_why_a_module_is_left_is_true():
    _, report = convert(Unseen())
    assert {e.name: e.why for e in report.left} == {
        "given": "its call cannot be followed",
        "kept": "its call cannot be followed",
        "idle": "not reached as the model is set",
        "unused": "no forward calls it by this name",
    }
    _, report = convert(Unseen(), everything=True)
    assert len(report.replaced) == 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.transpose(-2, -1)).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(4)
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(), nn.Linear(8, 4))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(self.norm(x))


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.lin = nn.Conv2d(3, 4, 1), nn.LayerNorm(4), nn.Linear(4, 8)

    def forward(self, x):
        return F.gelu(self.lin(self.norm(self.conv(x).permute(0, 2, 3, 1)))).sum()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.lin, self.last = nn.GRU(4, 4), nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        y, _ = self.gru(x)
        return self.last(F.relu(self.lin(y)))


TOKENS = {
    "mlp.1": Block,
    "gelu": ConvNeXt,
    "relu": Recurrent,
    "activation": lambda: nn.TransformerEncoderLayer(8, 2, 16),
}


@pytest.mark.parametrize("name", TOKENS)
def test_groups_that_divide_tokens_are_warned_of(name):
    with pytest.warns(UserWarning, match=rf"^{name}: groups divide dim 1.*channel_dim=-1"):
        _, report = convert(TOKENS[name](), groups=4)
    assert "warning: " in str(report)
    _, report = convert(TOKENS[name](), groups=4, channel_dim=-1)  # a warning is an error
    assert not any(r.warning or r.note for r in report.replaced)
    convert(TOKENS[name]())


def test_groups_elsewhere_are_at_most_noted():
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Dropout(), nn.ReLU())
    _, report = convert(nn.Sequential(mlp, nn.Linear(8, 1)), groups=4)
    assert all("channel_dim=-1" in r.note and not r.warning for r in report.replaced)
    assert "note: 0.1, 0.4: groups divide" in str(report)
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 8), nn.ReLU())
    _, report = convert(nn.Sequential(conv, head, nn.Linear(8, 1)), groups=4)
    assert [bool(r.note) for r in report.replaced] == [False, True]
