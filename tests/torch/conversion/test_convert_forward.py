"""``convert`` rewrites the text of a forward, and changes nothing else in it."""

import copy
import functools
import inspect
import linecache
import pickle
import traceback

import pytest
import torch
import torch.nn.functional as F
from formula import assert_near
from networks import QUIET, Basic, Calls, Out, units_of
from torch import nn

import padenet
from padenet import convert

pytestmark = QUIET


def replaced(model, **options):
    """The converted model, and its units by name; nothing is left."""
    new, report = convert(model, **options)
    assert not report.left, report
    assert units_of(new).keys() == {r.name for r in report.replaced}
    return new, units_of(new)


class Branches(Out):
    """Control flow that depends on data, on an argument and on the mode."""

    def __init__(self):
        super().__init__()
        self.act, self.inner = nn.GELU(), Calls(F.silu)

    def forward(self, x, scale=None):
        return self.last(self.body(self.lin(x), scale))

    def body(self, x, scale=None):
        x = self.act(x)
        if scale is not None:
            x = torch.tanh(x)
        if self.training:
            x = F.softplus(x)
        return F.relu(x) if x.sum() > 1 else self.inner(x)


def test_branches_stay_branches():
    new, units = replaced(Branches().double().eval())
    assert units.keys() == {"act", "tanh", "softplus", "relu", "inner.silu"}
    x = torch.randn(40, 4).double()
    sides = set()
    for row in x:
        h = new.act(new.lin(row))
        sides.add(bool(h.sum() > 1))
        after = new.relu(h) if h.sum() > 1 else new.inner(h)
        assert torch.equal(new(row), new.last(after))
    assert sides == {True, False}
    assert not torch.equal(new.train()(x), new.eval()(x))
    assert not torch.equal(new(x, scale=1), new(x))
    new(torch.randn(2, 4).double()).sum().backward()


class Parent(Out):
    """Methods, ``super()``, a private name, a closure, a default, a lambda, a comprehension."""

    factor = 2.0

    def body(self, x):
        return torch.tanh(x) * self.factor

    def __hidden(self, x, *, shift=0.5):
        return F.relu(x) + shift

    def both(self, x):
        return self.__hidden(x)


def make_child(offset):
    class Child(Parent):
        def body(self, x, times=3):
            double = lambda y: F.silu(y) * 2
            parts = [F.softplus(x + i) for i in range(times)]
            return super().body(double(self.both(x))) + sum(parts) + offset

    return Child


def test_methods_closures_and_super():
    model = make_child(7.0)().double()
    new, report = convert(model)
    assert units_of(new).keys() == {"silu", "softplus", "relu"}
    (left,) = report.left
    assert "super()" in left.why and "torch.tanh" in left.why
    assert [r.was for r in report.replaced if "loop" in r.was] == ["F.softplus, in a loop"]
    x = torch.randn(3, 4).double()
    h = new.lin(x)
    parts = [new.softplus(h + i) for i in range(3)]
    expected = torch.tanh(new.silu(new.relu(h) + 0.5) * 2) * 2 + sum(parts) + 7
    assert_near(new(x), new.last(expected), 16)
    assert type(new).__name__ == "Child" and isinstance(new, Parent)
    assert inspect.signature(new.body) == inspect.signature(model.body)
    assert torch.equal(copy.deepcopy(new)(x), new(x))


def test_a_rewritten_method_can_be_read():
    """By ``inspect``, and in the lines of a traceback."""
    new, _ = replaced(Branches().eval())
    assert "self.relu(x) if x.sum() > 1" in inspect.getsource(new.body)
    with pytest.raises(RuntimeError) as caught:
        new.body(-torch.ones(2, 5))
    lines = traceback.format_exception(caught.value)
    assert any("self.inner(x)" in line or "self.relu(x)" in line for line in lines)
    _, report = convert(new)
    assert not report.replaced and {e.why for e in report.left} == {"it is a unit already"}


MADE = []


def registered(f):
    MADE.append(f)

    @functools.wraps(f)
    def wrapper(self, *args, bias=0.0):
        return f(self, *args) + bias

    return wrapper


class Decorated(Out):
    @torch.no_grad()
    def body(self, x):
        return F.relu(x)

    @registered
    def forward(self, x):
        return self.last(self.body(F.gelu(self.lin(x))))


def test_decorators_stay_and_are_not_run_again():
    count = len(MADE)
    new, _ = replaced(Decorated())
    assert len(MADE) == count
    x = torch.randn(3, 4)
    expected = new.last(new.relu(new.gelu(new.lin(x))))
    assert torch.equal(new(x, bias=2.0), expected + 2)
    new(x).sum().backward()
    assert new.relu.a.grad is None and new.last.weight.grad is not None
    assert torch.equal(pickle.loads(pickle.dumps(new))(x), new(x))


def test_what_cannot_be_rewritten_is_left():
    def twice(f):
        """It holds the function in two cells, so that neither can be exchanged alone."""
        g = f
        return functools.wraps(f)(lambda *args: f(*args) if args else g(*args))

    class Decorated(Out):
        @twice
        def forward(self, x):
            return self.last(F.relu(self.lin(x)))

    class Method(Out):
        @twice
        def body(self, x):
            return F.relu(x)

    def outside(x):
        print("seen")
        return F.relu(x) + 1

    class Outside(Out):
        def body(self, x):
            return outside(x)

    whys = {Decorated: "decorated", Method: "decorated", Outside: "outside, a function outside"}
    for cls, why in whys.items():
        new, report = convert(cls())
        (left,) = report.left
        assert why in left.why and "F.relu" in left.why and "(line " in left.why, report
        assert not report.replaced and type(new) is cls
    scope = {"F": F, "Out": Out}
    exec(
        "class Unread(Out):\n    def forward(self, x):\n        return F.relu(x) + self.lin(x)",
        scope,
    )
    on_instance = Calls(F.silu)
    on_instance.forward = lambda x: F.relu(on_instance.lin(x))
    for model, why in ((scope["Unread"](), "source cannot be read"), (on_instance, "instance")):
        new, report = convert(model)
        assert not report.replaced and [why in entry.why for entry in report.left] == [True]
    edited = Branches.body
    old = linecache.getlines(edited.__code__.co_filename)
    name = edited.__code__.co_filename
    linecache.cache[name] = (1, None, [li.replace("F.softplus", "F.elu") for li in old], name)
    try:
        _, report = convert(Edited())
    finally:
        linecache.checkcache()
        del linecache.cache[name]
    assert [r.was for r in report.replaced] == []
    assert "source is not what runs" in report.left[0].why


class Edited(Out):
    def forward(self, x):
        return self.last(F.softplus(self.lin(x)))


class Odd(Out):
    """A function chosen at run time, one of a parameter, one with an argument of its own."""

    @classmethod
    def shifted(cls, x):
        return F.silu(x) + 1

    def body(self, x):
        act = torch.tanh if self.training else torch.sigmoid
        x = act(x) * torch.sigmoid(self.lin.bias) + self.shifted(x)
        return F.prelu(x, self.last.bias[:1])


def test_what_no_rule_takes_is_told():
    model = Odd()
    new, report = convert(model)
    assert not report.replaced and type(new) is Odd
    whys = [entry.why for entry in report.left]
    for part in (
        "torch.tanh: it is one of several",
        "torch.sigmoid: it is one of several",
        "torch.sigmoid: what it is called with is not a tensor of the forward",
        "F.silu: Odd.shifted, a function outside the class",
        "prelu: its slope is an argument",
    ):
        assert sum(part in why for why in whys) == 1, whys
    x = torch.randn(2, 4)
    assert torch.equal(new(x), model(x))


class Settings(Out):
    def __init__(self, mode):
        super().__init__()
        self.mode, self.down = mode, None

    def body(self, x):
        if self.down is not None:
            x = F.elu(self.down(x))
        return F.relu(x) if self.mode == "relu" else F.gelu(x)


def test_what_the_settings_rule_out_is_left():
    """And the setting stays one: it is read when the model runs."""
    new, report = convert(Settings("relu"))
    assert units_of(new).keys() == {"relu"}
    assert [entry.why.split(":")[0] for entry in report.left] == ["F.elu", "F.gelu"]
    assert all("not reached as the model is set (line " in entry.why for entry in report.left)
    x = torch.randn(2, 4)
    new.mode = "gelu"
    assert torch.equal(new(x), new.last(F.gelu(new.lin(x))))


def test_hooks():
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), []
    model[1].register_forward_hook(lambda m, x, y: seen.append(type(m)))
    model[1].register_forward_pre_hook(lambda m, x, kw: seen.append("pre"), with_kwargs=True)
    model[1].register_full_backward_hook(lambda m, dx, dy: seen.append("backward"))
    block = Basic(2, 2)
    block.relu.register_forward_hook(lambda m, x, y: seen.append("relu"))
    block.register_forward_hook(lambda m, x, y: seen.append("block"))
    new, report = convert(model, everything=True)
    new(torch.randn(2, 3)).sum().backward()
    assert seen == ["pre", padenet.PAU, "backward"] and not report.left
    seen.clear()
    convert(block, everything=True)[0](torch.randn(1, 2, 3, 3))
    assert seen == ["relu", "relu", "block"]
    model[1]._register_state_dict_hook(lambda *a: None)
    assert "state_dict" in convert(model, everything=True)[1].left[0].why
