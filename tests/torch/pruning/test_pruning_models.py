"""Pruning of models of all kinds: forwards of one's own, compilation, export."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from convolutional import Block, Function, Mixed, X, made
from torch import nn

import padenet
from padenet.torch.baselines import Maxout


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
    with pytest.raises(ValueError, match=r"70 removes no further filter: .* does is 75\."):
        padenet.prune(pruned, 70, example=X.double(), after=pruning)
    again, further = padenet.prune(pruned, 75, example=X.double(), after=pruning)
    want = set_to_zero(model, further, {"conv": "bn", "other": "other"})
    torch.testing.assert_close(again(X.double()), want(X.double()))


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
    for refused in (compiled, nn.Sequential(compiled)):
        with pytest.raises(TypeError, match="scripted or compiled"):
            padenet.prune(refused, 60, example=X)


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


class Separable(nn.Module):
    """A depthwise convolution that reads two others side by side."""

    def __init__(self, left, right):
        super().__init__()
        self.left, self.right = nn.Conv2d(3, left, 3), nn.Conv2d(3, right, 3)
        self.depthwise = nn.Conv2d(left + right, left + right, 3, groups=left + right)
        self.last = nn.Conv2d(left + right, 2, 1)

    def forward(self, x):
        return self.last(self.depthwise(torch.cat([self.left(x), self.right(x)], 1)))


@pytest.mark.parametrize("left, right, fraction", [(32, 64, 25), (5, 6, 50)])
def test_depthwise_after_concatenation(left, right, fraction):
    """Each of the two loses its own part."""
    model = made(Separable(left, right))
    pruned, _ = padenet.prune(model, fraction, example=X.double())
    kept = [n - n * fraction // 100 for n in (left, right)]
    assert [pruned.left.out_channels, pruned.right.out_channels] == kept
    assert pruned.depthwise.groups == sum(kept)


@dataclass
class Out:
    features: torch.Tensor


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y * y.shape[1] ** -0.5,  # depends on their number
        lambda y: put(y),  # writes at a place
        lambda y: torch.from_numpy(y.detach().numpy()),  # out of sight
    ],
)
def test_a_forward_that_depends_on_channels_is_not_cut_silently(function):
    with pytest.raises(ValueError, match="skip="):
        padenet.prune(made(Function(function)), 50, example=X.double())


def put(y):
    y[:, 1] = 5.0
    return y


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return Out(self.conv(x))


def test_what_a_dataclass_holds_is_output():
    """Its filters stay, and there are no others."""
    with pytest.raises(ValueError, match="conv"):
        padenet.prune(made(Holder()), 50, example=X.double())


class MeanFree(nn.ReLU):
    """Looks like an activation and looks at all channels."""

    def forward(self, x):
        return super().forward(x) - x.mean(1, keepdim=True)


class Own(nn.Module):
    def forward(self, x):
        return x * x.sigmoid()


def test_activations_of_ones_own_are_followed():
    x = X.double()
    model = made(nn.Sequential(nn.Conv2d(3, 4, 3), Own(), nn.Conv2d(4, 2, 3)))
    pruned, _ = padenet.prune(model, 50, example=x)
    assert pruned[0].out_channels == 2
    model = made(nn.Sequential(nn.Conv2d(3, 4, 3), MeanFree(), nn.Conv2d(4, 2, 3)))
    with pytest.raises(ValueError, match="skip="):
        padenet.prune(model, 50, example=x)
