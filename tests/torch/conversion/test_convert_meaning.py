"""With units that are exactly what they replace, the new model is the old one."""

import contextlib
import copy
import functools
import types

import pytest
import torch
import torch.nn.functional as F
from networks import QUIET, Net
from torch import nn

from padenet import convert

pytestmark = QUIET

EXACT = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "swish": F.silu}


class Exact(nn.Module):
    def __init__(self, init, **options):
        super().__init__()
        self.function = EXACT[init]

    def forward(self, x):
        return self.function(x)


class ReadAtOnce(Net):
    """What was written in place is read by the very next step."""

    def body(self, x):
        x = x * 1.0
        F.relu_(x)
        return x + 1


class NamedInFormula(Net):
    """A walrus in an expression that is one formula."""

    def body(self, x):
        y = (z := torch.tanh(x)) + z * 0
        return y + z


class Outputs(Net):
    """``out=``, alone, in a formula and onto the input."""

    @torch.no_grad()
    def body(self, x):
        x, y, z = x * 1.0, torch.empty_like(x), torch.empty_like(x)
        torch.tanh(x, out=y)
        torch.mul(x, torch.sigmoid(x), out=z)
        torch.sigmoid(x, out=x)
        return x + y + z


class Overwritten(Net):
    """The input of a formula changes between its steps: by index, through a view, through data."""

    def body(self, x):
        x = x * 1.0
        s = torch.sigmoid(x)
        x[0] = 0
        a = x * s
        s = torch.sigmoid(x)
        x.view(-1).mul_(2)
        b = x * s
        s = torch.sigmoid(x)
        x.data[1:].add_(1)
        return a + b + x * s


class First(nn.Module):
    def forward(self, x):
        return F.relu(x - 1, inplace=True) + x.data.mul_(2)


class OverwrittenByChild(Net):
    """A child writes into what it is given, between the steps of a formula."""

    def prepare(self):
        self.first, self.block = First(), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))

    def body(self, x):
        x, z = x * 1.0, x * 2.0
        s = torch.sigmoid(x)
        y = self.first(x)
        t = 1 + torch.erf(z / 2**0.5)
        y = y + self.block(z.data)
        return x * s + y + 0.5 * z * t


class WritesInside(Net):
    """A step of a formula writes into what others read."""

    def body(self, x):
        x = x * 1.0
        y = (x + 0) * x.sigmoid_()
        return x + y


class MaybeInPlace(Net):
    def body(self, x):
        x = x * 1.0
        y = F.relu(x, inplace=self.training)
        return x + 2 * y


class Keywords(Net):
    """The input is not the first of the arguments."""

    def body(self, x):
        return F.leaky_relu(negative_slope=x.shape[0], input=x) + F.relu(inplace=False, input=x)


class Twice(nn.ReLU):
    def __call__(self, x):
        return 2 * super().__call__(x) + 1


class Overridden(Net):
    def prepare(self):
        self.act, self.inner = Twice(), nn.Sequential(nn.Linear(4, 4), Twice(), nn.Linear(4, 4))

    def body(self, x):
        return self.act(x) + self.inner(x)


class Hooked(Net):
    """A hook changes what a step of a formula gives."""

    def prepare(self):
        self.gate = nn.Sigmoid()
        self.gate.register_forward_hook(lambda m, x, y: 2 * y)

    def body(self, x):
        return x * self.gate(x)


class Changes(Net):
    """Settings that the forward itself changes: a number, a function, a module."""

    def prepare(self):
        self.slope, self.f, self.act = 0.1, F.relu, nn.ReLU()

    def body(self, x):
        self.slope += 0.1
        x = F.leaky_relu(x, self.slope)
        x = x + self.f(x - 0.1) + self.act(x - 0.2)
        self.f, self.act = torch.tanh, nn.Tanh()
        return x + self.f(x) + self.act(x)


class Asks(Net):
    """The type and the attributes of an activation matter."""

    def prepare(self):
        self.act, self.leaky, self.other = nn.ReLU(), nn.LeakyReLU(0.3), nn.Tanh()

    def body(self, x):
        for layer in self.children():
            x = x + 1 if isinstance(layer, nn.ReLU) else x
        x = self.act(x) + self.leaky(x) * self.leaky.negative_slope
        return self.other(x) + (1 if type(self.other) is nn.Tanh else 2)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + torch.tanh(super().forward(x))


class Dense(nn.ModuleDict):
    def forward(self, x):
        for layer in self.values():
            x = torch.tanh(layer(x)) + 0.1
        return x


class Goes(nn.Module):
    """A forward that goes through its children, to which a unit would be one more."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        for layer in self.children():
            x = torch.tanh(layer(x)) + 0.1
        return x


class Lists(Net):
    def prepare(self):
        self.lists = nn.Sequential(
            Residual(nn.Linear(4, 4)), Dense({"a": nn.Linear(4, 4)}), Goes(), nn.Linear(4, 4)
        )

    def body(self, x):
        return self.lists(x)


class TwiceInList(nn.Sequential):
    def forward(self, x):
        return self[1](self[0](self[1](x))) + super().forward(x)


class CalledTwice(Net):
    def prepare(self):
        self.inner = TwiceInList(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    def body(self, x):
        return self.inner(x)


class Names(Net):
    """Names that a unit would take are set, or looked for, by the forward."""

    def body(self, x):
        self.tanh = torch.tanh(x)
        x = x + 100 if hasattr(self, "relu") else x
        return F.relu(x) + self.tanh


class Imports(Net):
    def body(self, x):
        import torch.nn.functional as functions
        from torch import tanh as th

        return functions.relu(x) + th(x)


class Own(Net):
    """A class that names itself."""

    shift = 0.5

    def forward(self, x):
        x = F.relu(self.lin(x)) + Own.shift
        return self.last(x) + len(super().__repr__()) * 0


class Loops(Net):
    """A number and a function that a loop sets anew."""

    def body(self, x):
        slope, f = 1.0, F.relu
        for _ in range(2):
            x = x * torch.sigmoid(slope * x)
            x = f(x) - 0.1
            slope, f = 2 * slope, torch.tanh
        return x


SLOPE = 1.0


class Outside(Net):
    """Numbers that a function inside sets, and a global that the forward sets."""

    def swish(self, x):
        return x * torch.sigmoid(SLOPE * x)

    def body(self, x):
        global SLOPE
        slope = 1.0

        def double():
            nonlocal slope
            slope = 2 * slope

        double()
        SLOPE = 1.0
        x = x * torch.sigmoid(slope * x) + self.swish(x)
        SLOPE = 2.0
        return x + self.swish(x)


class Same(Net):
    """One activation in two places, compared; another's forward is called by its class."""

    def prepare(self):
        self.act, self.third = nn.ReLU(), nn.ReLU()
        self.again = self.act

    def body(self, x):
        x = x + 1 if self.act is self.again else x
        return self.act(x) + nn.ReLU.forward(self.third, x)


class Unbound(Net):
    """Methods of the class Tensor; activations that are nobody's child, or made on the way."""

    def prepare(self):
        self.hidden = [nn.ReLU()]

    def body(self, x):
        return torch.Tensor.relu(x) + self.hidden[0](x - 1) + nn.Tanh()(x)


class Mapped(Net):
    def body(self, x):
        return torch.stack(list(map(torch.tanh, x)))


class Starred(Net):
    """What else an argument holds is not known."""

    def body(self, x):
        plain, slope = (x, False), (x, 0.3)
        return F.relu(*plain) + F.leaky_relu(*slope)


class InText(Net):
    def body(self, x):
        self.text = f"{torch.tanh(x).sum():.3f}"
        return x + len(self.text)


def same(x):
    return x


class Aliases(Net):
    """One tensor under two names, through a module, a child, a function and an unknown one."""

    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x if self.training else x

    def prepare(self):
        self.same, self.flat = nn.Identity(), nn.Sequential(nn.Identity(), nn.Flatten(0))
        self.maybe = self.Twice()

    def body(self, x):
        a, b, c, d, e = (x + i / 4 for i in range(5))
        self.same(a).relu_()
        F.relu_(self.flat(b))
        torch.hsplit(c, 2)[0].tanh_()
        y = functools.reduce(lambda value, f: f(value), [same], d)
        F.relu_(y)
        z = self.maybe(e)
        z.relu_()
        return a + b + c + d + e + z


class ListInLoop(Net):
    """What a list holds is another tensor each time."""

    def body(self, x):
        held = [x]
        for _ in range(3):
            y = x * torch.sigmoid(held[0])
            held[0] = y + 1
        return held[0]


def halved(f):
    return lambda x: f(x) / 2


class DecoratedInside(Net):
    """A decorator changes what a function inside gives."""

    def body(self, x):
        @halved
        def gate(y):
            return torch.sigmoid(y)

        return x * gate(x)


class Stopped(Net):
    """What a name is where a block or a loop has ended before its end."""

    def body(self, x):
        a = b = c = x
        try:
            a = x + 1
            raise KeyError
        except KeyError:
            pass
        with contextlib.suppress(KeyError):
            b = x + 1
            {}["a"]
            b = x
        for i in range(3):
            c = c + 1
            if i == 1:
                break
        else:
            c = x
        return x * torch.sigmoid(a) + x * torch.sigmoid(b) + x * torch.sigmoid(c)


class Takes(Net):
    """What is taken out of a container is another tensor each time."""

    def body(self, x):
        rest, two, last = iter([x, x + 1]), [x, x + 1], [x, x + 1]
        y = next(rest) * torch.sigmoid(next(rest)) + two.pop() * torch.sigmoid(two.pop())
        del last[0]
        filled = [x]
        functools.reduce(lambda a, b: a.insert(0, b), [filled, x + 1])
        return y + x * torch.sigmoid(last[0]) + x * torch.sigmoid(filled[0])


class SameText(Net):
    """One text that is an activation at one time and a product at another."""

    def times(self, a, b):
        return a * b

    def body(self, x):
        g = torch.sigmoid(x)
        scaled = lambda v: v * g
        y = scaled(x)
        g = g + 1
        return y + scaled(x) + self.times(x, torch.sigmoid(x)) + self.times(x, self.lin(x))


class Written(Net):
    """Written into between the steps of a formula, by whom it is hard to see."""

    def prepare(self):
        self.clip, self.inner = nn.Hardtanh(inplace=True), nn.Sequential(nn.Hardtanh(inplace=True))

    def body(self, x):
        f, x = x + 1, x * 1.0
        held = types.SimpleNamespace(v=f)
        gate = torch.sigmoid(f)
        held.v += 1
        t = torch.sigmoid(x)
        functools.reduce(lambda u, v: u.add_(v), [x, 1])
        y = x * t
        t = torch.sigmoid(x)
        self.clip(x)
        y = y + x * t
        t = torch.sigmoid(x)
        self.inner(x)
        y = y + x * t
        t = torch.sigmoid(x)
        F.hardtanh(x, -0.5, 0.5, inplace=True)
        y = y + x * t
        t = torch.sigmoid(x)
        eval("x.add_(1)")
        y = y + x * t
        z = self.clip(x)
        z.relu_()
        return x + y + f * gate


CASES = {  # how many units there are, with gates and outputs
    ReadAtOnce: 1,
    NamedInFormula: 1,
    Outputs: 1,  # the sigmoid whose result is written elsewhere
    Overwritten: 0,
    OverwrittenByChild: 1,
    WritesInside: 0,
    MaybeInPlace: 0,
    Keywords: 1,
    Overridden: 0,
    Hooked: 1,
    Changes: 0,
    Asks: 0,
    Lists: 0,
    CalledTwice: 1,
    Names: 2,
    Imports: 2,
    Own: 1,
    Loops: 0,
    Outside: 0,
    Same: 0,
    Unbound: 1,
    Mapped: 0,
    Starred: 0,
    InText: 1,
    Aliases: 0,
    ListInLoop: 1,
    DecoratedInside: 0,
    Stopped: 3,
    Takes: 4,
    SameText: 2,
    Written: 0,
}


@pytest.mark.parametrize("cls", CASES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("training", [False, True])
def test_the_meaning_stays(cls, training):
    torch.manual_seed(0)
    old = cls().double().train(training)
    new, report = convert(old, unit=Exact, everything=True)
    assert sum(isinstance(m, Exact) for m in new.modules()) == CASES[cls], report
    x = torch.randn(3, 4).double()
    kept = copy.deepcopy(old)
    for _ in range(2):  # the second time after what the first has set
        y, z = kept(x), new(x)
        assert torch.allclose(y, z, rtol=1e-12, atol=1e-12)  # some 20 operations, each 1e-16


def test_what_is_left_is_told():
    whys = {
        Outputs: "it is called with out",
        MaybeInPlace: "whether it is in place is computed in the forward",
        Changes: "relu: a forward sets f",
        Asks: "a forward asks for its type",
        Lists: "a list of modules, where a unit would be one more",
        Goes: "the forward of Goes goes through its children",
    }
    whys |= {Loops: "relu: a loop sets f", Same: "a forward asks for its identity"}
    whys |= {Starred: "relu: it is called with *"}
    whys |= {Unbound: "it is no child of a module", Mapped: "it is given to map"}
    for cls, why in whys.items():
        _, report = convert(cls(), everything=True)
        assert any(why in entry.why for entry in report.left), report
