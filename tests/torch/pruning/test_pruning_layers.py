"""Pruning through resizing, padding, transposed convolutions and gates: as if masked."""

import copy

import pytest
import torch
import torch.nn.functional as F
from convolutional import Function, X, made
from torch import nn

import padenet

IMAGES = X.double()


class Net(nn.Module):
    """A convolution, something in the middle, a convolution that reads it."""

    def __init__(self, middle, width=8, reads=8):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.middle, self.reader = middle, nn.Conv2d(reads, 6, 3)
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        x = self.middle(F.relu(self.bn(self.conv(x))))
        return self.fc(torch.tanh(self.reader(x)).mean((2, 3)))


def check(model, masks):
    """The pruning by half; ``masks``: the module before which a convolution's mask is put."""
    pruned, pruning = padenet.prune(model, 50, example=IMAGES)
    masked = copy.deepcopy(model)
    for conv, reader in masks.items():
        kept = pruning.filters[conv]
        gone = [i for i in range(kept.of) if i not in kept.places]
        hook = lambda m, inputs, gone=gone: inputs[0].index_fill(1, torch.tensor(gone), 0)
        masked.get_submodule(reader).register_forward_pre_hook(hook)
    with torch.no_grad():
        got, want, whole = pruned(IMAGES), masked(IMAGES), model(IMAGES)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    assert (want - whole).abs().max() > 1e-4, "the mask changes nothing"
    return pruned, pruning


@pytest.mark.parametrize(
    "middle",
    [
        nn.Upsample(scale_factor=2),
        nn.Upsample(size=11, mode="bilinear"),
        nn.UpsamplingNearest2d(scale_factor=2),
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"),
        nn.ZeroPad2d((1, 0, 2, 1)),
        nn.ReflectionPad2d(1),
        nn.ReplicationPad2d(2),
        nn.CircularPad2d(1),
        nn.ConstantPad2d(1, 3.0),  # the border of a removed channel goes with it
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(input=x, pad=(1, 1, 1, 1), value=2.0),
        lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
        lambda x: x * torch.linspace(1, 2, 8, dtype=x.dtype),  # the same for all channels
        lambda x: x + torch.linspace(1, 2, 64, dtype=x.dtype).reshape(1, 1, 8, 8),
        lambda x: torch.cat(tensors=[x.mean((2, 3), keepdim=True).expand_as(x)], dim=1),
    ],
)
def test_resizing_and_padding_are_followed(middle):
    pruned, pruning = check(made(Net(middle)), {"conv": "reader", "reader": "fc"})
    assert pruned.reader.in_channels == 4 and not pruning.left


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: F.pad(x, (0, 0, 0, 0, 1, -1)), r"pad\(\) may mix channels"),  # shifts them
        (nn.PixelShuffle(2), "function is a PixelShuffle"),
        (nn.ConvTranspose2d(4, 4, 2, groups=2), "function has groups=2"),
        (lambda x: x.amax(1, keepdim=True) * x, r"amax\(\) may mix channels"),
        (lambda x: x[:, :, :4, :4] * x.mean((2, 3))[:1, :4], r"getitem\(\) may mix channels"),
    ],
)
def test_what_mixes_channels_is_refused(function, reason):
    with pytest.raises(ValueError, match=f"cannot be pruned: conv: .*{reason}"):
        padenet.prune(made(Function(function)), 50, example=IMAGES)


def test_padding_of_the_dim_of_channels_is_refused():
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ZeroPad2d(1), nn.Conv1d(6, 2, 3)).double()
    with pytest.raises(ValueError, match="0: 1 pads the dim of channels too"):
        padenet.prune(model, 50, example=IMAGES[:, :, 0])


def test_channels_that_meet_another_dim_stay():
    """(N, C, N, W) · (N, W): the second's channels are columns of the first."""

    class Columns(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.other = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 8, 1)
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            rows = F.adaptive_avg_pool2d(self.conv(x), (2, 8))
            return self.fc((rows * self.other(x).mean((2, 3))).mean((2, 3)))

    with pytest.raises(ValueError, match=r"other: mul\(\) may mix channels"):
        padenet.prune(made(Columns()), 50, example=IMAGES)


class Sum(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
        self.function, self.fc = function, nn.Linear(4, 2)

    def forward(self, x):
        return self.fc((self.function(self.left(x)) + self.function(self.right(x))).mean((2, 3)))


ROW = torch.linspace(1, 2, 6, dtype=torch.float64)


@pytest.mark.parametrize(
    "function, zeros_stay",
    [
        (nn.ZeroPad2d(1), True),
        (nn.ConstantPad2d(1, 3.0), False),
        (lambda x: F.pad(x, (1, 1)), True),
        (lambda x: F.pad(x, (1, 1), value=3.0), False),
        (lambda x: x * ROW, True),
        (lambda x: x + ROW, False),
    ],
)
def test_zeros_for_a_sum_are_put_before_what_keeps_them(function, zeros_stay):
    model = made(Sum(function))
    if zeros_stay:
        pruned, _ = padenet.prune(model, 50, example=IMAGES)
        assert pruned.left.spread.width == pruned.right.spread.width == 4
    else:
        with pytest.raises(ValueError, match="left: it is added to"):
            padenet.prune(model, 50, example=IMAGES)


@pytest.mark.parametrize("options", [{}, {"output_size": [17, 17]}])
def test_a_transposed_convolution_reads_channels(options):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(8, 5, 2, stride=2)

        def forward(self, x):
            return self.up(x, **options)

    model = made(Net(Decoder(), reads=5))
    pruned, pruning = check(model, {"conv": "middle.up", "reader": "fc"})
    kept = list(pruning.filters["conv"].places)
    assert torch.equal(pruned.middle.up.weight, model.middle.up.weight[kept])
    assert torch.equal(pruned.middle.up.bias, model.middle.up.bias)
    assert pruned.middle.up.in_channels == 4 and pruned.reader.in_channels == 5
    again = padenet.apply_pruning(model, pruning)
    assert torch.equal(again(IMAGES), pruned(IMAGES))


def test_multiplications_of_a_transposed_convolution():
    size = padenet.torch.pruning.measure_size(nn.ConvTranspose2d(3, 5, 4, stride=2), X)
    assert size.multiplications == 8 * 8 * 3 * 5 * 4 * 4


class Spatial(nn.Module):
    """A gate for places: one filter."""

    def __init__(self, expand=False):
        super().__init__()
        self.gate, self.expand = nn.Conv2d(8, 1, 3, padding=1), expand

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        return x * (gate.expand_as(x) if self.expand else gate)


class Squeeze(nn.Module):
    """Squeeze and excitation, as most write it."""

    def __init__(self):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 8), nn.Sigmoid())

    def forward(self, x):
        b, c, _, _ = x.size()
        return x * self.fc(self.pool(x).view(b, c)).view(b, c, 1, 1).expand_as(x)


def test_a_gate_with_one_filter_keeps_it():
    model = made(Net(Spatial()))
    pruned, pruning = check(model, {"conv": "middle", "reader": "fc"})
    assert pruned.reader.in_channels == pruned.middle.gate.in_channels == 4
    assert pruning.left == (("middle.gate", "it has one filter alone"),)


@pytest.mark.parametrize("middle", [Spatial(expand=True), Squeeze()])
def test_a_gate_as_wide_as_the_channels_keeps_its_width(middle):
    pruned, pruning = check(made(Net(middle)), {"conv": "middle", "reader": "fc"})
    assert len(pruning.filters["conv"].places) == pruned.bn.layer.num_features == 4
    assert pruned.reader.in_channels == 8


def test_a_head_with_one_filter():
    class Heatmap(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 1, 1)

        def forward(self, x):
            return self.head(F.gelu(self.conv(x))).squeeze(1).permute(0, 2, 1)

    pruned, pruning = check(made(Heatmap()), {"conv": "head"})
    assert pruned.head.in_channels == 2
    assert pruning.left == (("head", "it has one filter alone"),)


def test_a_small_u_net():
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.inner = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 3, stride=2)
            self.up, self.resize = nn.ConvTranspose2d(6, 3, 2, stride=2), nn.Upsample((6, 6))
            self.pad, self.last = nn.ReflectionPad2d(1), nn.Conv2d(7, 2, 3)

        def forward(self, x):
            skip = F.relu(self.down(x))
            x = self.resize(self.up(F.relu(self.inner(skip))))
            return self.last(self.pad(torch.cat([x, skip], 1)))

    model = made(UNet())
    pruned, pruning = padenet.prune(model, 50, example=IMAGES)
    assert pruned.last.in_channels == 3 + 2 and pruned.up.in_channels == 3
    assert pruning.left == (("last", "its filters are the model's output"),)
    masked = copy.deepcopy(model)
    for name in ("down", "inner"):
        gone = sorted(set(range(pruning.filters[name].of)) - {*pruning.filters[name].places})
        with torch.no_grad():  # ReLU gives 0 for 0
            masked.get_submodule(name).weight[gone] = 0
            masked.get_submodule(name).bias[gone] = 0
    torch.testing.assert_close(pruned(IMAGES), masked(IMAGES), rtol=1e-10, atol=1e-12)


class Plain(nn.Module):
    """Two convolutions and a number an image, put together by a function."""

    def __init__(self, forward):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, 3, padding=1)
        self.reads, self.fc = nn.Conv2d(16, 6, 1), nn.Linear(6, 1)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.function = forward

    def head(self, x):
        return self.fc(F.relu(x).mean((2, 3)))

    def forward(self, x):
        return self.function(self, F.relu(self.c1(x)))


@pytest.mark.parametrize(
    "forward, uncalled",
    [
        (lambda m, x: m.head(m.c2(x)).squeeze(1) * 2, "reads"),
        (lambda m, x: m.head(m.c2(x)).flatten() + 1, "reads"),
        (lambda m, x: m.head(m.c2(x)).pow(2).mean() * 0.1, "reads"),
        (lambda m, x: m.head(m.c2(input=x)), "reads"),
        (
            lambda m, x: m.head(m.reads(torch.cat([x, x], 1, out=torch.empty(0, dtype=x.dtype)))),
            "c2",
        ),
    ],
    ids=["squeezed", "flat", "a loss", "by keyword", "into a tensor"],
)
@torch.no_grad()  # torch.cat wants it for out=
def test_heads_and_ways_to_call(forward, uncalled):
    model = made(Plain(forward))
    pruned, pruning = padenet.prune(model, 50, example=IMAGES, skip=uncalled)
    assert pruning.left == ((uncalled, "skipped"),)
    assert len(pruning.filters["c1"].places) == 4 and pruned.c1.out_channels == 4
    kept = set(pruning.filters["c1"].places)
    for i in set(range(8)) - kept:  # relu(0) is 0, so that a dead filter is one that is gone
        model.c1.weight[i] = model.c1.bias[i] = 0
    if "c2" in pruning.filters:
        for i in set(range(6)) - set(pruning.filters["c2"].places):
            model.c2.weight[i] = model.c2.bias[i] = 0
    if "reads" in pruning.filters:
        for i in set(range(6)) - set(pruning.filters["reads"].places):
            model.reads.weight[i] = model.reads.bias[i] = 0
    torch.testing.assert_close(pruned(IMAGES), model(IMAGES))


def test_a_constant_does_not_get_the_channels_that_lend_it_a_shape():
    forward = lambda m, x: m.head(m.reads(torch.cat([x, m.scale.expand_as(x)], 1)))
    with pytest.raises(ValueError, match=r"c1: expand_as\(\) may mix channels"):
        padenet.prune(made(Plain(forward)), 50, example=IMAGES)
