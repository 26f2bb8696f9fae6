"""``convert``: what is replaced, by which start, and that the rest of the model stays as it was."""

import copy
import functools
import io
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from formula import assert_near, formula
from torch import fx, nn

import padenet
from padenet.coefficients import STARTS
from padenet.convert import convert, from_rational_activations, param_groups

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch.*"),
]


class Basic(nn.Module):
    """ResNet's block: one ``self.relu`` at two places, in place."""

    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Conv2d(inputs, width, 1, stride) if stride != 1 else None

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Basic(4, 4), Basic(4, 8, 2))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.layer1(self.relu(self.bn(self.conv(x))))
        return self.fc(x.mean((2, 3)))


class Dense(nn.Module):
    """DenseNet's layer: ``F.relu``, and a dropout that follows the mode."""

    def __init__(self, inputs, rate=0.5):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4, 1)
        self.bn2, self.conv2 = nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3, padding=1)
        self.rate = rate

    def forward(self, x, extra=None):
        y = self.conv1(F.relu(self.bn1(x), inplace=True))
        y = self.conv2(F.relu(self.bn2(y)))
        y = F.dropout(y, p=self.rate, training=self.training)
        return torch.cat([x, y], 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), Dense(4), Dense(6))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.features(x), inplace=True)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(width, 2 * width, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU6(inplace=True),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
            nn.ReLU6(inplace=True),
            nn.Conv2d(2 * width, width, 1),
        )

    def forward(self, x):
        return x + self.conv(x)


def mobilenet():
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)]
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6(True), Inverted(4), Inverted(4), *head)


MODELS = {
    "resnet": (ResNet, ["relu", "layer1.0.relu", "layer1.0.relu_2", "layer1.1.relu"], 5),
    "densenet": (DenseNet, ["relu", "features.1.relu", "features.1.relu_2", "features.2.relu"], 5),
    "mobilenet": (mobilenet, ["1", "2.conv.2", "2.conv.4", "3.conv.2"], 5),
}
EACH_MODEL = pytest.mark.parametrize("name", MODELS)


def images(n=2):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(n))


def units_of(model):
    return {name: m for name, m in model.named_modules() if isinstance(m, padenet.PAU)}


def seeded(make, *args):
    torch.manual_seed(0)
    return make(*args)


class Watch(torch.overrides.TorchFunctionMode):
    """Every ReLU becomes the ``relu`` start in float64, without ``convert``."""

    done = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func not in (F.relu, F.hardtanh):  # the module ReLU6 calls the latter
            return func(*args, **kwargs or {})
        self.done += 1
        x, start = args[0], STARTS["relu"]
        a, b = (torch.tensor(c, dtype=x.dtype) for c in (start.a, start.b))
        y = formula(x, a, b)
        return x.copy_(y) if args[-1] is True or (kwargs or {}).get("inplace") else y


@EACH_MODEL
def test_networks(name):
    """Each place has its unit, and the whole computes what its starts say."""
    make, names, count = MODELS[name]
    model = seeded(make).double().eval()
    before = copy.deepcopy(model.state_dict())
    text = repr(model)
    new, report = convert(model)
    assert set(names) <= {r.name for r in report.replaced} and len(report.replaced) == count
    assert not report.left
    assert units_of(new).keys() == {r.name for r in report.replaced}
    assert {r.start for r in report.replaced} == {"relu6" if name == "mobilenet" else "relu"}
    assert repr(model) == text and not units_of(model)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    x = images().double()
    with torch.no_grad(), Watch() as watch:
        expected = model(x.clone())
    assert watch.done == count
    assert_near(new(x), expected, 1e6)
    assert not any(m.training for m in new.modules())
    assert all(p.dtype == torch.float64 for p in new.parameters())


@EACH_MODEL
def test_trains_and_is_saved(name):
    model, _ = convert(seeded(MODELS[name][0]))
    assert model.training
    optimizer = torch.optim.AdamW(param_groups(model, lr=0.01, weight_decay=0.1))
    F.cross_entropy(model(images()), torch.tensor([0, 1])).backward()
    assert all(u.a.grad.abs().sum() > 0 for u in units_of(model).values())
    optimizer.step()
    model.eval()
    expected = model(images())
    other, _ = convert(MODELS[name][0]())
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval()(images()), expected)
    assert torch.equal(copy.deepcopy(model)(images()), expected)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded(images()), expected)
    assert type(loaded).__name__ == type(model).__name__


def mixed():
    return nn.Sequential(nn.Conv2d(3, 4, 3), Basic(4, 4), Dense(4), Inverted(6))


def test_export():
    model, report = convert(seeded(mixed).eval())
    assert len(report.replaced) == 6
    program = torch.export.export(model, (images(),))
    assert_near(program.module()(images()), model(images()), 1e4)


def test_compile():
    """Without a graph break, gradients included, and again after a change of mode."""
    torch._dynamo.reset()
    model, _ = convert(seeded(mixed).eval())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    results = []
    for call in (model, compiled):
        y = call(images())
        results.append((y, *torch.autograd.grad(y.square().sum(), model.parameters())))
    assert_near(*results, 1e5)
    model.train()
    assert not torch.equal(compiled(images()), compiled(images()))  # dropout


def test_a_rewritten_module_keeps_its_class_and_the_mode_its_meaning():
    model, _ = convert(seeded(DenseNet))
    layer = model.features[1]
    assert isinstance(layer, Dense) and type(layer).__name__ == "Dense"
    assert layer.rate == 0.5
    x = torch.randn(1, 4, 4, 4)
    assert not torch.equal(layer(x), layer(x))
    model.eval()
    assert torch.equal(layer(x), layer(x, extra=None))


SPELLINGS = {
    "F.relu": (lambda x: F.relu(x), "relu"),
    "F.relu(inplace)": (lambda x: F.relu(x, True), "relu"),
    "F.relu_": (lambda x: F.relu_(x), "relu"),
    "torch.relu": (lambda x: torch.relu(x), "relu"),
    "torch.relu_": (lambda x: torch.relu_(x), "relu"),
    "x.relu": (lambda x: x.relu(), "relu"),
    "x.relu_": (lambda x: x.relu_(), "relu"),
    "F.relu6": (lambda x: F.relu6(x), "relu6"),
    "F.leaky_relu": (lambda x: F.leaky_relu(x), "lrelu"),
    "F.leaky_relu(.2)": (lambda x: F.leaky_relu(x, 0.2), "lrelu_0.20"),
    "F.leaky_relu_": (lambda x: F.leaky_relu_(x, negative_slope=0.3), "lrelu_0.30"),
    "F.leaky_relu(.07)": (lambda x: F.leaky_relu(x, 0.07, inplace=True), "lrelu 0.07"),
    "F.rrelu": (lambda x: F.rrelu(x, 0.1, 0.3), "lrelu_0.20"),
    "F.elu": (lambda x: F.elu(x), "elu"),
    "F.celu": (lambda x: F.celu(x), "elu"),
    "F.selu": (lambda x: F.selu(x), "selu"),
    "torch.selu": (lambda x: torch.selu(x), "selu"),
    "F.silu": (lambda x: F.silu(x), "swish"),
    "F.gelu": (lambda x: F.gelu(x), "gelu"),
    "F.gelu(tanh)": (lambda x: F.gelu(x, approximate="tanh"), "gelu"),
    "F.mish": (lambda x: F.mish(x), "mish"),
    "F.hardswish": (lambda x: F.hardswish(x), "hardswish"),
    "F.sigmoid": (lambda x: F.sigmoid(x), "sigmoid"),
    "torch.sigmoid": (lambda x: torch.sigmoid(x), "sigmoid"),
    "expit": (lambda x: torch.special.expit(x), "sigmoid"),
    "x.sigmoid_": (lambda x: x.sigmoid_(), "sigmoid"),
    "F.tanh": (lambda x: F.tanh(x), "tanh"),
    "torch.tanh": (lambda x: torch.tanh(x), "tanh"),
    "x.tanh": (lambda x: x.tanh(), "tanh"),
    "F.softplus": (lambda x: F.softplus(x), "softplus"),
}


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        return self.function(self.lin(x))


def assert_starts_as(unit, function, rms, channels=1):
    """The reported error is the unit's own, measured here by another rule."""
    x = torch.linspace(-3, 3, 4001, dtype=torch.float64)[:, None].repeat(1, channels)
    error = (unit.double()(x) - function(x.clone())).detach()
    measured = float(error.square().mean().sqrt())
    assert math.isclose(measured, rms, rel_tol=0.02, abs_tol=2e-7)  # coefficients in float32


@pytest.mark.parametrize("name", SPELLINGS)
def test_functions_and_methods(name):
    function, start = SPELLINGS[name]
    new, report = convert(Calls(function).eval())
    (entry,) = report.replaced
    assert entry.start == start and not report.left, report
    (unit,) = units_of(new).values()
    x = torch.randn(5, 4)
    assert torch.equal(new(x), unit(new.lin(x)))
    if "rrelu" in name:
        function = lambda x: F.leaky_relu(x, 0.2)
    assert entry.rms < 7e-3
    assert_starts_as(unit, function, entry.rms)


ACTIVATIONS = [
    (nn.ReLU(), "relu"),
    (nn.ReLU6(), "relu6"),
    (nn.LeakyReLU(), "lrelu"),
    (nn.LeakyReLU(0.25), "lrelu_0.25"),
    (nn.LeakyReLU(-0.5), "lrelu_-0.5"),
    (nn.LeakyReLU(0), "relu"),
    (nn.LeakyReLU(0.07), "lrelu 0.07"),
    (nn.LeakyReLU(1.5), "lrelu 1.5"),
    (nn.PReLU(), "lrelu_0.25"),
    (nn.PReLU(init=0.125), "lrelu 0.125"),
    (nn.RReLU().eval(), "lrelu 0.2292"),
    (nn.ELU(), "elu"),
    (nn.CELU(), "elu"),
    (nn.SELU(), "selu"),
    (nn.SiLU(), "swish"),
    (nn.GELU(), "gelu"),
    (nn.GELU("tanh"), "gelu"),
    (nn.Mish(), "mish"),
    (nn.Hardswish(), "hardswish"),
    (nn.Sigmoid(), "sigmoid"),
    (nn.Tanh(), "tanh"),
    (nn.Softplus(), "softplus"),
]


@pytest.mark.parametrize("module, start", ACTIVATIONS, ids=str)
def test_modules(module, start):
    unit, report = convert(module)
    (entry,) = report.replaced
    assert (type(unit), entry.name, entry.start) == (padenet.PAU, "", start)
    assert unit.training == module.training
    assert entry.rms < 7e-3
    assert_starts_as(unit, module.double(), entry.rms)
    assert "(model)" in str(report)


def test_a_blend_is_as_good_as_the_stored_fit():
    """LReLU(s) = s x + (1 - s) relu(x): the relu start gives every slope its optimum."""
    from padenet.convert.activations import _blend

    for slope, name in [(0.01, "lrelu"), (0.2, "lrelu_0.20"), (0.3, "lrelu_0.30")]:
        a, b = _blend(slope)
        torch.testing.assert_close(a, torch.tensor(STARTS[name].a).double(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(b, torch.tensor(STARTS[name].b).double(), rtol=1e-6, atol=1e-6)


def test_prelu_with_a_slope_a_channel():
    module = nn.PReLU(6)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([-0.1, 0.0, 0.1, 0.25, 0.5, 1.0]))
    unit, report = convert(module)
    assert unit.groups == 6 and unit.channel_dim == 1
    assert report.replaced[0].was == "PReLU(6 slopes)"
    assert_starts_as(unit, module.double(), report.replaced[0].rms, channels=6)


FITTED = [
    (nn.LeakyReLU(-0.2), {}, 1.21 * STARTS["relu"].rms),  # -0.2 x + 1.2 relu(x) is among them
    (nn.ELU(0.5), {}, 5e-3),
    (nn.Tanh(), {"degrees": (3, 2)}, 1e-2),
]


@pytest.mark.parametrize("module, options, limit", FITTED, ids=str)
def test_what_has_no_stored_start_is_fitted(module, options, limit):
    pytest.importorskip("padenet.fit")
    pytest.importorskip("scipy")
    unit, report = convert(nn.Sequential(module, copy.deepcopy(module)), **options)
    for entry in report.replaced:
        assert entry.start.startswith("fitted") and entry.rms < limit
    assert_starts_as(unit[0], module.double(), entry.rms)
    for key, value in options.items():
        assert getattr(unit[0], key) == value


class Aliases(nn.Module):
    """One activation in two slots, called once each."""

    def __init__(self):
        super().__init__()
        act = nn.Tanh()
        self.lin1, self.act1, self.lin2, self.act2 = nn.Linear(3, 3), act, nn.Linear(3, 3), act

    def forward(self, x):
        return self.act2(input=self.lin2(self.act1(self.lin1(x))))


def test_share():
    for model, names in [
        (ResNet(), ["layer1.0.relu", "layer1.1.relu", "relu"]),
        (Aliases(), ["act1"]),
    ]:
        new, report = convert(model, share=True)
        assert sorted(r.name for r in report.replaced) == names
        assert len(set(units_of(new).values())) == len(names)
    assert new.act1 is new.act2
    separate, report = convert(Aliases())
    assert separate.act1 is not separate.act2 and len(report.replaced) == 2
    x = torch.randn(2, 3)
    assert torch.equal(separate(x), separate.act2(separate.lin2(separate.act1(separate.lin1(x)))))
    kept, report = convert(Aliases(), only=lambda name, kind: False)
    assert kept.act1 is kept.act2 and not report.replaced


def test_only_and_skip():
    def names(**choice):
        new, report = convert(ResNet(), **choice)
        new(images())
        done = {r.name for r in report.replaced}
        assert units_of(new).keys() == done
        everything = {"relu", *(f"layer1.{i}.{n}" for i in (0, 1) for n in ("relu", "relu_2"))}
        assert {entry.name for entry in report.left} == everything - done
        return done

    assert names(only="layer1.0") == {"layer1.0.relu", "layer1.0.relu_2"}
    assert names(only="layer1.*.relu") == {"layer1.0.relu", "layer1.1.relu"}
    assert names(only="*_2") == {"layer1.0.relu_2", "layer1.1.relu_2"}
    assert names(only=nn.ReLU, skip=["layer1.1", "relu"]) == {"layer1.0.relu", "layer1.0.relu_2"}
    assert names(skip=lambda name, kind: name.startswith("layer1")) == {"relu"}
    with pytest.raises(ValueError, match=r"only='layer2' fits no activation.*layer1.0.relu"):
        names(only="layer2")
    with pytest.raises(ValueError, match=r"skip=.*Tanh.* fits no activation"):
        names(skip=nn.Tanh)


@pytest.mark.parametrize("choice", ["relu", "relu_2"])
def test_half_of_a_reused_module(choice):
    """The call that is not chosen keeps the old module."""
    block = seeded(Basic, 4, 4).double().eval()
    new, _ = convert(block, only=choice)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    unit = units_of(new)[choice]
    first, second = (unit, F.relu) if choice == "relu" else (F.relu, unit)
    expected = second(block.bn2(block.conv2(first(block.bn1(block.conv1(x))))) + x)
    assert torch.equal(new(x), expected)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["resnet", "densenet"])
def test_dtype_and_mode(name, dtype):
    model = MODELS[name][0]().to(dtype)
    for i, child in enumerate(model.modules()):
        child.training = bool(i % 2)
    new, _ = convert(model)
    after = dict(new.named_modules())
    for path, module in model.named_modules():
        assert after[path].training == module.training
    for path, unit in units_of(new).items():
        assert unit.a.dtype == unit.b.dtype == dtype
        if path.endswith(("relu", "relu_2")) and name == "densenet":
            assert unit.training == after[path.rpartition(".")[0]].training


def test_device():
    """Each unit is where its neighbours are: "meta" stands for a second device."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2, device="meta"), nn.ReLU())
    model.append(Calls(F.relu).to("meta"))
    new, _ = convert(model)
    assert [new[i].a.device.type for i in (1, 3)] == ["cpu", "meta"]
    assert new[4].relu.a.device.type == "meta"
    assert convert(nn.ReLU(), device="meta")[0].a.is_meta


def test_units_and_options():
    unit = functools.partial(padenet.RPAU, alpha=0.5)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), Basic(8, 8))
    new, _ = convert(model, unit=unit, groups=4)
    assert all(type(u) is padenet.RPAU and u.alpha == 0.5 for u in units_of(new).values())
    assert new[1].a.shape == (4, 6)
    new(images())
    again, report = convert(new)
    assert not report.replaced and str(report) == "0 replaced, 0 left"
    assert again[1].alpha == 0.5


LIPSCHITZ = {"swish": 1.1, "gelu": 1.13, "tanh": 1.0}


def test_smooth_activations_change_the_output_by_no_more_than_their_errors():
    """|F(u) - f(v)| <= max_error + L |u - v| for u, v in [-3, 3], and a linear layer multiplies
    an error by at most its norm."""
    torch.manual_seed(0)
    acts = {"swish": nn.SiLU(), "gelu": nn.GELU(), "tanh": nn.Tanh()}
    layers = [nn.Linear(16, 16) for _ in range(4)]
    chain = [m for pair in zip(layers, acts.values(), strict=False) for m in pair]
    model = nn.Sequential(*chain, layers[3]).double()
    new, _ = convert(model)
    for p in (*model.parameters(), *new.parameters()):
        p.requires_grad_(False)
    x = torch.randn(200, 16, dtype=torch.float64).clamp(-2, 2)
    bound, u, v = 0.0, x, x
    for i, layer in enumerate(layers):
        u, v = layer(u), layer(v)
        bound *= float(layer.weight.abs().sum(1).max())
        assert float((u - v).abs().max()) <= bound + 1e-12
        if i < 3:
            assert max(float(u.abs().max()), float(v.abs().max())) <= 3
            name = list(acts)[i]
            bound = STARTS[name].max_error + LIPSCHITZ[name] * bound
            u, v = new[2 * i + 1](u), acts[name](v)
            assert float((u - v).abs().max()) <= bound + 1e-12
    torch.testing.assert_close(new(x), model(x), rtol=0, atol=bound)
    assert bound < 0.05


def test_failure_leaves_the_model_alone():
    def broken(init, **options):
        raise RuntimeError("no unit")

    model = ResNet()
    text, state = repr(model), {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="no unit"):
        convert(model, unit=broken)
    assert repr(model) == text and type(model.layer1[0]) is Basic
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_transformer_layers():
    """In evaluation torch's fused kernel must not pass the unit by."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    model = nn.TransformerEncoder(layer, 2).eval()
    new, report = convert(model)
    assert [r.name for r in report.replaced] == ["layers.0.activation", "layers.1.activation"]
    x = torch.randn(2, 3, 8)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        assert float((new(x) - model(x)).abs().max()) < 0.05
        new(x, src_key_padding_mask=mask)
        before = new(x)
        for unit in units_of(new).values():
            unit.a.zero_()
        assert not torch.equal(new(x), before)
    assert len(units_of(convert(nn.TransformerDecoderLayer(8, 2, 16))[0])) == 1

    class Own(nn.TransformerEncoderLayer):
        pass

    new, report = convert(Own(8, 2, activation=nn.ReLU(), batch_first=True))
    assert len(report.replaced) == 1 and not report.left
    assert new.activation_relu_or_gelu == 0


def test_graph_modules_parametrizations_and_the_rest():
    traced = fx.symbolic_trace(seeded(ResNet).eval())
    new, report = convert(traced)
    assert len(report.replaced) == len(units_of(new)) == 5
    assert torch.equal(new(images()), convert(seeded(ResNet).eval())[0](images()))
    linear = nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Softplus())
    rest = nn.Sequential(linear, nn.Hardtanh(), nn.LSTM(2, 2), nn.Softmax(0))
    new, report = convert(rest)
    assert not report.replaced and {entry.name for entry in report.left} == {"1", "2"}
    with pytest.raises(TypeError, match="Convert the model first"):
        convert(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)))


def test_report_is_a_table():
    _, report = convert(nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.07), nn.Hardtanh()))
    assert str(report).splitlines() == [
        "1 replaced, 1 left",
        "  unit  was              starts as   rms error",
        "  1     LeakyReLU(0.07)  lrelu 0.07  5.2e-03",
        "  left: 2: Hardtanh has no start",
    ]
    with pytest.raises(AttributeError):
        report.left = ()


def test_param_groups():
    model, _ = convert(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), groups=2)
    model[0].bias.requires_grad_(False)
    weights, coefficients = param_groups(model, lr=0.1, weight_decay=0.5, coefficient_lr=0.01)
    assert (weights["lr"], weights["weight_decay"]) == (0.1, 0.5)
    assert (coefficients["lr"], coefficients["weight_decay"]) == (0.01, 0.0)
    assert [id(p) for p in coefficients["params"]] == [id(model[2].a), id(model[2].b)]
    assert len(weights["params"]) == 3
    assert param_groups(model, lr=0.1)[1]["lr"] == 0.1
    before = model[2].a.detach().clone()
    optimizer = torch.optim.SGD(param_groups(model, lr=0.1, weight_decay=0.5))
    (0 * model(images()).sum()).backward()
    optimizer.step()
    assert torch.equal(model[2].a, before)


def test_parameters_of_other_activations_do_not_decay():
    """At the rate of the weights, as the experiments have it."""
    model = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), padenet.PAU(), padenet.baselines.SReLU(4))
    groups = param_groups(model, lr=0.1, weight_decay=0.5, coefficient_lr=0.01)
    assert [(g["lr"], g["weight_decay"]) for g in groups] == [(0.1, 0.5), (0.01, 0), (0.1, 0)]
    of = [(model[0],), (model[2],), (model[1], model[3])]
    for group, modules in zip(groups, of, strict=True):
        want = [p for m in modules for p in m.parameters()]
        assert {id(p) for p in group["params"]} == {id(p) for p in want}
        assert len(group["params"]) == len(want)


def peer(x, a, b, version):
    """The formulas of ``rational_activations``, with b from b_1 on, in C from b_0."""
    powers = torch.stack([x**k for k in range(12)], -1)
    P = (powers[..., : len(a)] * a).sum(-1)
    terms = powers[..., 1 : len(b) + 1] * b
    if version == "A":
        return P / (1 + terms.abs().sum(-1))
    if version == "C":
        return P / (0.1 + (powers[..., : len(b)] * b).sum(-1).abs())
    return P / (1 + (terms.sum(-1) if version == "N" else terms.sum(-1).abs()))


@pytest.mark.parametrize("version", "ABCDN")
@pytest.mark.parametrize("degrees", [(5, 4), (7, 6), (3, 3)])
def test_from_rational_activations(version, degrees, gen):
    counts = (degrees[0] + 1, degrees[1] + (version == "C"))
    a, b = (torch.rand(c, generator=gen) for c in counts)
    state = {"f.0.weight": torch.ones(2), "f.1.numerator": a, "f.1.denominator": b}
    units = from_rational_activations({**state, "numerator": a, "denominator": b}, version)
    assert units.keys() == {"f.1", ""}
    unit = units["f.1"]
    assert unit.degrees == degrees
    assert torch.equal(unit.a, a) and torch.equal(unit.b, b)
    x = torch.linspace(0 if version == "N" else -3, 3, 50, dtype=torch.float64)
    assert_near(unit.double()(x), peer(x, a.double(), b.double(), version), 256)


def test_from_rational_activations_says_what_is_wrong():
    pair = {"u.numerator": torch.ones(6), "u.denominator": torch.ones(4)}
    noisy = from_rational_activations(pair, "D", unit=padenet.RPAU, alpha=0.1)["u"]
    assert type(noisy) is padenet.RPAU
    with pytest.raises(ValueError, match="unknown version 'E'"):
        from_rational_activations(pair, "E")
    with pytest.raises(ValueError, match="'u' has a numerator but no denominator"):
        from_rational_activations({"u.numerator": torch.ones(6)}, "A")
    with pytest.raises(ValueError, match="no key that ends in 'numerator'"):
        from_rational_activations({"weight": torch.ones(6)}, "A")


def test_hugging_face():
    transformers = pytest.importorskip("transformers")
    small = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    for model, inputs in [
        (
            transformers.BertModel(transformers.BertConfig(vocab_size=50, **small)),
            {"input_ids": torch.ones(2, 4, dtype=torch.long)},
        ),
        (
            transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **small)),
            {"pixel_values": images()},
        ),
    ]:
        new, report = convert(model.eval())
        assert sum(r.start == "gelu" for r in report.replaced) == 2, report
        with torch.no_grad():
            u, v = (m(**inputs).last_hidden_state for m in (new, model))
        assert float((u - v).abs().max()) < 0.05


# guard_growth


def test_without_the_guard_a_unit_can_blow_up():
    """What the guard is for: a small negative b_4, and F is as large as P where A is 0."""
    unit = padenet.PAU()
    with torch.no_grad():
        unit.b[3] = -0.004
    assert unit(torch.linspace(31, 32, 1001)).max() > 5e6


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("start, sign", [("lrelu", 1), (([0.0, 1.0, 0.5], [0.1, -0.5]), -1)])
def test_the_guard_holds_the_last_coefficient(groups, start, sign):
    degrees = (5, 4) if isinstance(start, str) else (2, 2)
    unit = padenet.PAU(start, groups=groups, degrees=degrees)
    net = nn.Sequential(nn.Linear(4, 4), unit)
    first = unit.b.detach()[..., -1].clone()
    optimizer = torch.optim.SGD(net.parameters(), 1.0)
    handle = padenet.guard_growth(net, optimizer, floor=0.25)

    def push(by):
        optimizer.zero_grad()
        (unit.b[..., -1] * by).sum().backward()
        optimizer.step()
        return unit.b.detach()[..., -1]

    assert torch.equal(push(10.0 * sign), first * 0.25)  # towards 0 and past it: held
    torch.testing.assert_close(push(-0.5 * sign), first * 0.25 + 0.5 * sign)  # away: free
    handle.remove()
    assert (push(10.0 * sign) * sign < 0).all()


def test_the_guard_leaves_other_coefficients_and_units_alone():
    unit, flat = padenet.PAU(), padenet.PAU(([0.0, 1.0], [0.0]), degrees=(1, 1))
    net = nn.Sequential(unit, flat, nn.Linear(2, 2))
    optimizer = torch.optim.SGD(net.parameters(), 1.0)
    padenet.guard_growth(net, optimizer)
    expected = {k: v.clone() - 1 for k, v in net.state_dict().items()}
    sum(p.sum() for p in net.parameters()).backward()
    optimizer.step()
    for name, value in net.state_dict().items():
        if name == "0.b":
            assert value[3] == pytest.approx(0.1 * padenet.PAU().b[3].item())
            assert torch.equal(value[:3], expected[name][:3])
        else:
            assert torch.equal(value, expected[name])


@pytest.mark.parametrize("floor", [0.0, 1.0, -0.1])
def test_the_guard_refuses(floor):
    with pytest.raises(ValueError, match="between 0 and 1"):
        padenet.guard_growth(nn.Linear(1, 1), torch.optim.SGD([torch.zeros(1)], 1.0), floor=floor)
