"""``convert``: what is replaced, and that the rest of the model stays as it was."""

import copy
import functools
import io
import pkgutil

import pytest
import torch
import torch.nn.functional as F
from formula import assert_near, formula
from networks import (
    MODELS,
    QUIET,
    Basic,
    Calls,
    Dense,
    DenseNet,
    Inverted,
    ResNet,
    images,
    seeded,
    units_of,
)
from torch import fx, nn

import padenet
from padenet import convert, param_groups
from padenet.core.starting.starts import STARTS

pytestmark = QUIET


EACH_MODEL = pytest.mark.parametrize("name", MODELS)


class Watch(torch.overrides.TorchFunctionMode):
    """Every ReLU and ReLU6 becomes its stored start in float64, without ``convert``."""

    done = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        known = {F.relu: "relu", F.hardtanh: "relu6"}  # the module ReLU6 calls the latter
        if func not in known:
            return func(*args, **kwargs or {})
        self.done += 1
        x, start = args[0], STARTS[known[func]]
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
        new, report = convert(model, share=True, everything=True)
        assert sorted(r.name for r in report.replaced) == names
        assert len(set(units_of(new).values())) == len(names)
    assert new.act1 is new.act2
    separate, report = convert(Aliases(), everything=True)
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
    new, _ = convert(model, unit=unit, groups=4, everything=True)
    assert all(type(u) is padenet.RPAU and u.alpha == 0.5 for u in units_of(new).values())
    assert new[1].a.shape == (4, 6)
    new(images())
    again, report = convert(new)
    assert not report.replaced and {e.name for e in report.left} == units_of(new).keys()
    assert {e.why for e in report.left} == {"it is a unit already"}
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
    with pytest.raises(TypeError, match=r"takes a model.* not ReLU\. Make one first: ReLU\("):
        convert(nn.ReLU)
    with pytest.raises(TypeError, match="Convert the model first"):
        convert(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)))


def test_report_is_a_table():
    _, report = convert(nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.07), nn.Hardtanh()))
    assert str(report).splitlines() == [
        "1 replaced, 1 left",
        "  unit  was              starts as   rms error  max      at ±6    at ±10",
        "  1     LeakyReLU(0.07)  lrelu 0.07  5.2e-03    3.1e-02  5.7e-01  2.0e+00",
        "  left: 2: Hardtanh has no start",
    ]
    with pytest.raises(AttributeError):
        report.left = ()


def test_the_function_has_no_module_of_its_name():
    """``import padenet.convert as c`` would give the one or the other."""
    assert callable(padenet.convert)
    assert "convert" not in {m.name for m in pkgutil.iter_modules(padenet.__path__)}
