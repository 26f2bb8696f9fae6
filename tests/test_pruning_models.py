"""Pruning of models of all kinds: forwards of one's own, compilation, export, refusals."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import padenet
from padenet.baselines import Maxout

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """Written like torchvision's: functions, ``+=``, one ReLU for all."""

    def __init__(self, width=8, inner=6):
        super().__init__()
        self.conv1 = nn.Conv2d(width, inner, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x
        return self.relu(out)


class Mixed(nn.Module):
    """A stem, a residual block, two branches that are joined, a gate, and a flat end."""

    def __init__(self, end=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block = Block()
        self.left = nn.Conv2d(8, 5, 1)
        self.right = nn.Conv2d(8, 6, 3, padding=1)
        self.gate = nn.Conv2d(11, 10, 1)
        self.body = nn.Conv2d(11, 10, 3, padding=1)
        self.fc = nn.Linear(160, end)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = self.block(x)
        x = torch.cat([F.gelu(self.left(x)), F.max_pool2d(self.right(x), 1)], dim=1)
        gate = torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        x = F.avg_pool2d(self.body(x) * gate, 2)
        return self.fc(x.view(x.size(0), -1))


class Function(nn.Module):
    """A convolution, a function, a linear layer."""

    def __init__(self, function, width=4):
        super().__init__()
        self.conv, self.function = nn.Conv2d(3, width, 3, padding=1), function
        self.fc = nn.LazyLinear(2)

    def forward(self, x):
        return self.fc(self.function(self.conv(x)).flatten(1))


def made(model, seed=0):
    torch.manual_seed(seed)
    model = model.double().eval()
    model(X.double())
    with torch.no_grad():
        for p in [*model.parameters(), *model.buffers()]:
            if p.is_floating_point():
                p += 0.1 * torch.rand_like(p)
    return model


def set_to_zero(model, pruning, places):
    """Hooks that multiply the masks on: convolution → the module after which to do it."""
    model = copy.deepcopy(model)
    for conv, end in places.items():
        kept = pruning.filters[conv]
        mask = torch.zeros(kept.of, 1, 1, dtype=torch.float64)
        mask[list(kept.places)] = 1
        model.get_submodule(end).register_forward_hook(lambda m, i, y, mask=mask: y * mask)
    return model


@pytest.mark.parametrize("convert", [False, True])
def test_a_forward_of_ones_own(convert):
    model, x = made(Mixed()), X.double()
    if convert:
        model, _ = padenet.convert(model)
        model.relu.a.data += 0.05
    pruned, pruning = padenet.prune(model, 50, example=x)
    assert not pruning.left
    assert pruning.filters["gate"] == pruning.filters["body"]
    assert pruned.block.conv1.in_channels == 8 and pruned.block.conv2.out_channels == 4
    stem = pruned.stem if convert else pruned.stem.layer
    assert stem.out_channels == 4
    assert pruned.fc.in_features == 80
    places = {"block.conv1": "block.relu", "block.conv2": "block.bn2", "body": "body"}
    if convert:
        places |= {"stem": "relu", "left": "gelu", "right": "right"}
    else:
        places |= {"stem": "stem", "left": "left", "right": "right", "block.conv1": "block.bn1"}
    want = set_to_zero(model, pruning, places)
    with torch.no_grad():
        torch.testing.assert_close(pruned(x), want(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: x.permute(0, 2, 3, 1), r"permute\(\) may mix channels"),
        (lambda x: x.softmax(1), r"softmax\(\) may mix channels"),
        (lambda x: torch.cat([x, x], 2), r"cat\(\) may mix channels"),
        (lambda x: x.chunk(2, 1)[0], r"chunk\(\) may mix channels"),
        (lambda x: x + torch.ones(4, 1, 1), r"add\(\) may mix channels"),
        (nn.GroupNorm(2, 4), "function is a GroupNorm, which may mix channels"),
        (nn.Conv2d(4, 4, 1, groups=2), "function has groups=2"),
        (nn.Softmax(1), "function is a Softmax"),
    ],
)
def test_what_needs_all_channels_is_refused_or_skipped(function, reason):
    model = Function(function)
    model(X)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=f"cannot be pruned: conv: .*{reason}") as error:
        padenet.prune(model, 50, example=X)
    assert "skip=['conv'" in str(error.value)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    with pytest.raises(ValueError, match="no convolution is left to prune"):
        padenet.prune(model, 50, example=X, skip=["conv", "function"][: 1 + ("groups" in reason)])


@pytest.mark.parametrize(
    "function",
    [
        F.relu,
        lambda x: x * 2 + 1,
        lambda x: x.mean((2, 3)),
        lambda x: F.adaptive_avg_pool2d(x, 1).squeeze(3),
        lambda x: x * torch.sigmoid(x),
        lambda x: x.flatten(2),
        lambda x: F.interpolate(x, scale_factor=2),
        nn.Dropout(0.5),
        nn.Sequential(nn.BatchNorm2d(4), nn.PReLU(4), nn.AdaptiveMaxPool2d(2)),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(256), nn.PReLU(256), padenet.PAU(groups=256)),
        nn.Sequential(nn.InstanceNorm2d(4, affine=True), Maxout(pieces=1), nn.Hardsigmoid()),
    ],
)
def test_what_treats_channels_alike_is_followed(function):
    model = made(Function(function))
    pruned, pruning = padenet.prune(model, 50, example=X.double())
    kept = pruning.filters["conv"].places
    assert len(kept) == 2
    each = model.fc.in_features // 4
    columns = [each * c + i for c in kept for i in range(each)]
    assert torch.equal(pruned.fc.weight, model.fc.weight[:, columns])
    cut = copy.deepcopy(model)
    with torch.no_grad():  # the end reads no filter that is gone
        cut.fc.weight[:, [i for i in range(4 * each) if i not in columns]] = 0
        torch.testing.assert_close(pruned(X.double()), cut(X.double()))


def test_a_layer_used_twice():
    class Twice(nn.Module):
        def __init__(self, other):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
            self.other, self.fc = other, nn.Linear(4, 2)

        def forward(self, x):
            x = self.bn(self.conv(x))
            x = self.bn(x if self.other is None else self.other(x))
            return self.fc(x.mean((2, 3)))

    model = made(Twice(None))
    pruned, _ = padenet.prune(model, 50, example=X.double())
    assert pruned.bn.num_features == 2
    with pytest.raises(ValueError, match="conv: bn is used for different channels"):
        padenet.prune(made(Twice(nn.Conv2d(4, 4, 1))), 50, example=X.double())


@pytest.mark.parametrize("act, spread", [(nn.ReLU(), "bn"), (nn.Sigmoid(), None)])
def test_zeros_are_put_where_one_place_is_served(act, spread):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.act = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), act
            self.other, self.fc = nn.Conv2d(3, 4, 1), nn.Linear(4, 2)

        def forward(self, x):
            x = self.act(self.bn(self.conv(x))) + self.other(x)
            return self.fc(self.act(x).mean((2, 3)))

    model = made(Sum())
    if spread is None:
        with pytest.raises(ValueError, match="conv: it is added to"):
            padenet.prune(model, 50, example=X.double())
        return
    pruned, pruning = padenet.prune(model, 50, example=X.double())
    assert pruned.bn.spread.width == pruned.other.spread.width == 4
    want = set_to_zero(model, pruning, {"conv": "bn", "other": "other"})
    torch.testing.assert_close(pruned(X.double()), want(X.double()))
    again, _ = padenet.prune(pruned, 70, example=X.double(), after=pruning)
    assert again.other.layer.out_channels == 2 and str(again) == str(pruned)
    again, further = padenet.prune(pruned, 75, example=X.double(), after=pruning)
    want = set_to_zero(model, further, {"conv": "bn", "other": "other"})
    torch.testing.assert_close(again(X.double()), want(X.double()))


def test_shared_and_computed_weights_are_refused():
    model = nn.Sequential(
        nn.Conv2d(3, 3, 1), nn.ReLU(), nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(192, 2)
    )
    model[2].weight = model[0].weight
    with pytest.raises(ValueError, match="0: has a parameter that another layer has too"):
        padenet.prune(model, 50, example=X)

    class Standardised(nn.Conv2d):
        def forward(self, x):
            return F.conv2d(x, self.weight - self.weight.mean((1, 2, 3), keepdim=True))

    model[2] = Standardised(3, 3, 1)
    with pytest.raises(ValueError, match="0: 2 is a Standardised with a forward of its own"):
        padenet.prune(model, 50, example=X)
    model = Function(F.relu)
    model(X)
    nn.utils.parametrizations.weight_norm(model.conv)
    with pytest.raises(ValueError, match="conv: has a weight that is computed from others"):
        padenet.prune(model, 50, example=X)


def test_filters_that_the_model_gives_out_stay():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, x):
            return x + self.body(x)

    pruned, pruning = padenet.prune(Denoiser(), 50, example=X)
    assert pruning.left == (("body.2", "its filters are the model's output"),)
    assert pruned.body[0].out_channels == 4 and pruned.body[2].out_channels == 3


@pytest.mark.parametrize("fraction", [0, 100, -5, 130, float("nan"), "30", None, True])
def test_fractions_outside_are_refused(fraction):
    with pytest.raises(ValueError, match="must be a percentage between 0 and 100"):
        padenet.prune(Mixed(), fraction, example=X)


def test_bad_input_is_refused():
    model = Mixed()
    with pytest.raises(ValueError, match="Sequential has no convolutions"):
        padenet.prune(nn.Sequential(nn.Linear(3, 2)), 30, example=torch.randn(1, 3))
    with pytest.raises(ValueError, match=r"unknown criterion 'l2'\. Known: l1, sum"):
        padenet.prune(model, 30, example=X, criterion="l2")
    with pytest.raises(ValueError, match=r"skip='blok' fits no convolution\. There are: stem, "):
        padenet.prune(model, 30, example=X, skip="blok")
    with pytest.raises(TypeError, match="a model is needed, not str"):
        padenet.prune("vgg8", 30, example=X)
    pruned, pruning = padenet.prune(model, 30, example=X)
    with pytest.raises(ValueError, match="the model is pruned already by 30 %"):
        padenet.prune(pruned, 40, example=X)
    with pytest.raises(ValueError, match="fraction=30 is not above the 30 % that are gone already"):
        padenet.prune(pruned, 30, example=X, after=pruning)
    with pytest.raises(ValueError, match="the model is pruned already"):
        padenet.apply_pruning(pruned, pruning)
    with pytest.raises(ValueError, match="cuts 'stem', which Function does not have"):
        padenet.apply_pruning(Function(F.relu), pruning)
    other = Mixed()
    other.stem = nn.Conv2d(3, 9, 3, padding=1)
    with pytest.raises(ValueError, match="stem: Conv2d has 9 filters, and the pruning is for 8"):
        padenet.apply_pruning(other, pruning)
    with torch.no_grad():
        model.stem.weight[0] = float("nan")
    with pytest.raises(ValueError, match="stem has weights that are not finite"):
        padenet.prune(model, 30, example=X)


def test_a_forward_with_a_fixed_number_of_channels_is_refused():
    model = Function(lambda x: x.view(-1, 256))
    model(X)
    with pytest.raises(ValueError, match=r"does not run with fewer channels: .*write x.flatten"):
        padenet.prune(model, 50, example=X)


def test_skipped_convolutions_keep_their_filters():
    pruned, pruning = padenet.prune(Mixed(), 50, example=X, skip=["block", "left"])
    assert [name for name, _ in pruning.left] == ["block.conv1", "block.conv2", "left"]
    assert pruned.left.out_channels == 5 and pruned.right.out_channels == 3
    _, further = padenet.prune(pruned, 70, example=X, skip=["block", "right"], after=pruning)
    assert further.filters["right"] == pruning.filters["right"]
    assert len(further.filters["left"].places) == 2
    assert [name for name, _ in further.left] == ["block.conv1", "block.conv2"]


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, used by dynamo itself
def test_a_pruned_model_compiles():
    model, _ = padenet.convert(made(Mixed()))
    pruned, _ = padenet.prune(model, 50, example=X.double())
    assert pruned.relu.spread.width == 8
    compiled = torch.compile(pruned, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(X.double()), pruned(X.double()))
    with pytest.raises(TypeError, match="scripted or compiled"):
        padenet.prune(compiled, 60, example=X)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, used by its exporter
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_pruned_model_exports_to_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 8, 1), padenet.PAU(groups=8), Block())
    model, _ = padenet.convert(nn.Sequential(body, nn.Flatten(), nn.Linear(512, 2)))
    pruned, _ = padenet.prune(model, 50, example=X)
    assert pruned[0][1].spread.width == 8
    path = tmp_path / "pruned.onnx"
    torch.onnx.export(pruned.eval(), (X,), path, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    np.testing.assert_allclose(got, pruned(X).detach().numpy(), rtol=1e-4, atol=1e-5)
