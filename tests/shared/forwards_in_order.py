"""Forwards in which it matters when something is written, and by which module, for ``convert``."""

import torch
import torch.nn.functional as F
from networks import Net
from torch import nn


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
