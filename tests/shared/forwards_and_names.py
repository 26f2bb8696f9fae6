"""Forwards in which it matters what a name stands for, and when, for ``convert``."""

import contextlib
import functools
import types

import torch
import torch.nn.functional as F
from networks import Net
from torch import nn


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
