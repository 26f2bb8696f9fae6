"""What cannot be pruned is refused by name, and the model stays as it is."""

import copy

import pytest
import torch
import torch.nn.functional as F
from convolutional import Function, Mixed, X
from torch import nn

import padenet


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


@pytest.mark.parametrize(
    "width, fraction, smallest",
    [(6, 0.6, 16.67), (120, 0.6, 0.84), (8, 12.49, 12.5), (3, 33, 33.34)],
)
def test_a_fraction_by_which_nothing_goes_is_refused(width, fraction, smallest):
    model = nn.Sequential(nn.Conv2d(3, width, 1), nn.Flatten(), nn.Linear(64 * width, 2))
    what = rf"fraction={fraction} removes no filter: it is in percent .* does is {smallest}\."
    with pytest.raises(ValueError, match=what):
        padenet.prune(model, fraction, example=X)
    pruned, _ = padenet.prune(model, smallest, example=X)
    assert pruned[0].out_channels == width - 1


def test_one_filter_each_is_the_end():
    unit = padenet.torch.baselines.Maxout()
    model = nn.Sequential(nn.Conv2d(3, 4, 1), unit, nn.Flatten(), nn.Linear(128, 2))
    pruned, pruning = padenet.prune(model, 50, example=X)
    assert pruned[0].out_channels == 2
    with pytest.raises(ValueError, match="no filter can go: each convolution has one, or some"):
        padenet.prune(pruned, 99, example=X, after=pruning)


def test_a_model_without_numbers_or_shapes_is_refused():
    with pytest.raises(ValueError, match=r"stem\.weight is on the meta device.* Load the weights"):
        padenet.prune(Mixed().to("meta"), 50, example=X)
    with pytest.raises(ValueError, match=r"fc\.weight is lazy and has no shape yet\. Run"):
        padenet.prune(Function(F.relu), 50, example=X)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(256, 2))
    model[0].seen = model[0](X)
    with pytest.raises(ValueError, match=r"^0\.seen is a tensor that autograd follows.* None"):
        padenet.prune(model, 50, example=X)
    model[0].seen = model[0].seen.detach()
    assert padenet.prune(model, 50, example=X)[0][0].out_channels == 2


def test_an_output_of_nan_is_not_a_matter_of_types():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(256, 2))
    nn.init.constant_(model[2].bias, float("nan"))
    with pytest.raises(ValueError, match="output of Sequential for the example is NaN or infinite"):
        padenet.prune(model, 50, example=X)


def test_a_model_that_is_a_convolution_has_a_name():
    with pytest.raises(ValueError, match=r"left to prune\. the model itself: its filters are the"):
        padenet.prune(nn.Conv2d(3, 4, 1), 50, example=X)


def test_a_forward_that_reads_a_layer_before_a_sum_is_refused():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.fc = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1), nn.Linear(4, 2)

        def forward(self, x):
            return self.fc((self.a(x.to(self.b.weight.dtype)) + self.b(x)).mean((2, 3)))

    with pytest.raises(ValueError, match=r"no attribute 'weight'\. A layer before a sum becomes"):
        padenet.prune(Reads(), 50, example=X)


def test_complex_weights_go_by_their_absolute_values():
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1, bias=False, dtype=torch.complex64)
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(self.conv(x + 0j).abs().mean((2, 3)))

    model = Complex()
    with torch.no_grad():
        model.conv.weight.copy_(torch.tensor([5j, 1, 2, 3j]).reshape(4, 1, 1, 1).expand(4, 3, 1, 1))
    _, pruning = padenet.prune(model, 50, example=X)
    assert pruning.filters["conv"].places == (0, 3)
    with pytest.raises(ValueError, match="conv has complex weights, whose sums have no order"):
        padenet.prune(model, 50, example=X, criterion="sum")


def test_a_forward_with_a_fixed_number_of_channels_is_refused():
    model = Function(lambda x: x.view(-1, 256))
    model(X)
    with pytest.raises(ValueError, match=r"does not run with fewer channels: .*write x.flatten"):
        padenet.prune(model, 50, example=X)
