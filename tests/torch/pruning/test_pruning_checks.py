"""What would go wrong later is refused at once: layers not called, outputs not compared, names."""

import math
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from convolutional import Function, Mixed, X, made
from torch import nn

import padenet

IMAGES = X.double()


class Auxiliary(nn.Module):
    """A second head that only training calls, as GoogLeNet's."""

    def __init__(self, head, unit=None):
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3)
        self.fc, self.aux, self.unit = nn.Linear(6, 2), head, unit

    def forward(self, x):
        h = self.stem(x).relu()
        y = self.fc(self.conv(h).relu().mean((2, 3)))
        return (y, self.aux(h.mean((2, 3)))) if self.training else y


@pytest.mark.parametrize(
    "head, names",
    [
        (nn.Linear(8, 2), ["aux"]),
        (nn.BatchNorm1d(8), ["aux"]),
        (padenet.PAU(groups=8), ["aux"]),
        (nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), ["aux.0", "aux.2"]),
    ],
)
def test_layers_that_evaluation_does_not_call_are_refused(head, names):
    model = Auxiliary(head)
    model(X)
    with pytest.raises(ValueError, match=f"in evaluation: {', '.join(names)}. They") as error:
        padenet.prune(model, 50, example=X)
    assert f"skip={names}" in str(error.value)
    pruned, pruning = padenet.prune(model, 50, example=X, skip=["stem", "aux"])
    assert pruned.conv.out_channels == 3 and pruning.left == (("stem", "skipped"),)
    pruned.train()(X)[1].sum().backward()


def test_a_unit_for_a_whole_layer_need_not_be_called():
    model = Auxiliary(padenet.PAU(), nn.PReLU())
    pruned, _ = padenet.prune(model, 50, example=X)
    assert pruned.train()(X)[1].shape == (2, 4)


def test_a_parameter_that_a_function_takes_is_used():
    class Linear(Auxiliary):
        def forward(self, x):
            x = self.conv(self.stem(x).relu()).relu().mean((2, 3))
            return F.linear(self.fc(x), self.aux.weight)

    pruned, _ = padenet.prune(Linear(nn.Linear(2, 3)), 50, example=X)
    assert pruned.stem.out_channels == 4


@pytest.mark.parametrize("backend", ["picked", "reference"])
def test_rational_as_a_function_is_followed(backend, monkeypatch):
    if backend == "reference":
        monkeypatch.setattr(
            "padenet.torch.functional.pick", lambda x, a, b: padenet.torch.reference
        )
    unit = padenet.PAU().double()
    model = made(Function(lambda x: padenet.rational(x, unit.a + 0.1, unit.b)))
    pruned, pruning = padenet.prune(model, 50, example=IMAGES)
    gone = sorted(set(range(4)) - set(pruning.filters["conv"].places))
    with torch.no_grad():
        model.fc.weight.view(2, 4, 64)[:, gone] = 0  # not the filter: rational(0) is not 0
        torch.testing.assert_close(pruned(IMAGES), model(IMAGES), rtol=1e-12, atol=1e-12)


def test_rational_does_not_keep_zeros():
    class Residual(Auxiliary):
        def forward(self, x):
            x = self.stem(x)
            return self.fc(
                (x + padenet.rational(self.conv(x), self.aux.a, self.aux.b)).mean((2, 3))
            )

    model = Residual(padenet.PAU())
    model.conv, model.fc = nn.Conv2d(8, 8, 1), nn.Linear(8, 2)
    with pytest.raises(ValueError, match="conv: it is added to"):
        padenet.prune(model, 50, example=X)


@pytest.mark.parametrize("wrap", [lambda m: nn.Sequential(m, nn.Identity()), nn.ModuleList])
def test_what_is_pruned_inside_another_module_is_found(wrap):
    pruned, pruning = padenet.prune(Mixed(), 30, example=X)
    outer = wrap(pruned) if wrap is not nn.ModuleList else nn.ModuleList([pruned])
    for refused in (
        lambda: padenet.prune(outer, 60, example=X),
        lambda: padenet.apply_pruning(outer, pruning),
    ):
        with pytest.raises(ValueError, match=r"0 in the model is pruned already by 30 %\. .*'0'"):
            refused()
    with pytest.raises(ValueError, match="after is not the pruning of this model: stem is not"):
        padenet.prune(outer, 60, example=X, after=pruning)


def test_an_attribute_named_pruning_is_not_overwritten():
    class Own(Mixed):
        pruning = property(lambda self: 3)

    _, pruning = padenet.prune(Mixed(), 30, example=X)
    held, set_ = Mixed(), Mixed()
    held.pruning, set_.pruning = nn.Identity(), None
    for model in (Own(), held, set_):
        with pytest.raises(ValueError, match=r"has a 'pruning' of its own.* another name"):
            padenet.prune(model, 30, example=X)
        with pytest.raises(ValueError, match="has a 'pruning' of its own"):
            padenet.apply_pruning(model, pruning)


@dataclass
class Output:
    logits: torch.Tensor
    hidden: object = None


class Counting(nn.Module):
    """Its output depends on the number of channels where ``wrong``."""

    def __init__(self, wrap, wrong=True):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)
        self.wrap, self.wrong = wrap, wrong

    def forward(self, x):
        x = self.conv(x).relu().mean((2, 3))
        return self.wrap(self.fc(x / x.shape[1] ** 0.1 if self.wrong else x))


OUTPUTS = [
    Output,
    lambda y: {"a": [y], "b": "name", "c": None},
    lambda y: torch.complex(y, y),
    lambda y: torch.cat([y, torch.full_like(y, 1e6)], 1),  # large numbers hide nothing
    lambda y: y + 1e4,
    lambda y: y + torch.tensor([math.inf, math.nan, 0, 0], dtype=y.dtype),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrap", OUTPUTS)
def test_outputs_of_all_kinds_are_compared(wrap, dtype):
    if wrap is OUTPUTS[2] and dtype == torch.bfloat16:
        wrap = lambda y: torch.complex(y.float(), y.float())
    torch.manual_seed(0)
    padenet.prune(Counting(wrap, wrong=False).to(dtype), 50, example=X.to(dtype))
    with pytest.raises(ValueError, match="does not give what the whole one gives"):
        padenet.prune(Counting(wrap).to(dtype), 50, example=X.to(dtype))


@pytest.mark.parametrize(
    "wrap, what",
    [
        (lambda y: SimpleNamespace(logits=y), "is or holds a SimpleNamespace"),
        (lambda y: (y, {y}), "is or holds a set"),
        (lambda y: Output(y, SimpleNamespace(hidden=y)), "is or holds a SimpleNamespace"),
        (lambda y: y.sum().item(), "holds no floats"),
        (lambda y: y[:, :0].flatten(1), "holds no floats"),
    ],
)
def test_outputs_that_cannot_be_compared_are_refused(wrap, what):
    with pytest.raises(TypeError, match=f"output of Counting {what}.* Let forward return tensors"):
        padenet.prune(Counting(wrap, wrong=False), 50, example=X)


def test_a_model_that_is_single_alone_is_compared_as_it_is():
    class Single(Counting):
        def forward(self, x):
            return super().forward(x.float())

    torch.manual_seed(0)
    padenet.prune(Single(lambda y: y, wrong=False), 50, example=X)
    with pytest.raises(ValueError, match="does not give what the whole one gives"):
        padenet.prune(Single(lambda y: y), 50, example=X)


@pytest.mark.parametrize(
    "clip, zeros_stay",
    [
        (F.hardtanh, True),
        (lambda x: F.hardtanh(x, 0.0, max_val=2.0), True),
        (lambda x: F.hardtanh(x, 0.5, 1.0), False),
        (lambda x: F.hardtanh(x, max_val=-0.1), False),
    ],
)
def test_a_range_without_zero_does_not_keep_zeros(clip, zeros_stay):
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 2)

        def forward(self, x):
            return self.fc((x + clip(self.conv(x))).mean((2, 3)))

    model = made(Residual())
    if not zeros_stay:
        with pytest.raises(ValueError, match="conv: it is added to"):
            padenet.prune(model, 50, example=IMAGES)
        return
    pruned, pruning = padenet.prune(model, 50, example=IMAGES)
    (gone,) = set(range(3)) - set(pruning.filters["conv"].places)
    with torch.no_grad():
        model.conv.weight[gone] = model.conv.bias[gone] = 0
        torch.testing.assert_close(pruned(IMAGES), model(IMAGES), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "example, error, what",
    [
        (None, TypeError, "example is a NoneType"),
        (X.numpy(), TypeError, "example is a ndarray"),
        ([X], TypeError, "example is a list"),
        ((), ValueError, "example holds no tensor"),
        (X[:0], ValueError, r"example is empty, of shape \(0, 3, 8, 8\)"),
        (X[0], ValueError, "0: is given an image without a batch"),
    ],
)
def test_examples_that_are_none_are_refused(example, error, what):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    with pytest.raises(error, match=what):
        padenet.prune(model, 30, example=example)


@pytest.mark.parametrize(
    "given, error, what",
    [
        ({"after": "x"}, TypeError, "after='x' must be a Pruning"),
        ({"skip": None}, TypeError, "skip=None must be patterns of names"),
        ({"skip": [3]}, TypeError, r"skip=\[3\] must be patterns of names"),
        ({"criterion": ["l1"]}, ValueError, r"unknown criterion \['l1'\]"),
    ],
)
def test_arguments_of_other_kinds_are_refused(given, error, what):
    with pytest.raises(error, match=what):
        padenet.prune(Mixed(), 30, example=X, **given)


@pytest.mark.parametrize("fraction", [np.int64(30), np.float32(30), Fraction(30), 30])
def test_all_real_numbers_are_fractions(fraction, tmp_path):
    _, pruning = padenet.prune(Mixed(), fraction, example=X)
    assert type(pruning.fraction) is float and pruning.fraction == 30
    assert len(pruning.filters["stem"].places) == 6 and pruning.steps == (30,)
    pruning.save(tmp_path / "pruning.json")
    assert padenet.Pruning.load(tmp_path / "pruning.json") == pruning


def test_a_model_pruned_in_inference_mode_can_be_trained():
    model = Mixed()
    with torch.inference_mode():
        pruned, pruning = padenet.prune(model, 30, example=torch.randn(2, 3, 8, 8))
        again = padenet.apply_pruning(model, pruning)
    for each in (pruned, again):
        each(X).sum().backward()
        assert all(p.grad is not None for p in each.parameters())
