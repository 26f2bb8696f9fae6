"""Pruned nets give what masked ones give; which filters go; prunings as data."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from masks import masked, shake
from torch import nn

import padenet
from padenet.lab.nets import NETS, build
from padenet.torch.pruning import Pruning
from padenet.torch.pruning.spread import Spread

CHANNEL = {"groups": "channel"}
CASES = [
    *[("lenet", a, {}) for a in ("relu", "prelu", "slaf", "mixture", "pau", "rpau", "apl")],
    *[("lenet", a, {}) for a in ("srelu", "maxout", "swish", "tanh")],
    ("lenet", "pau", CHANNEL),
    ("lenet", "pau", {"groups": 2}),
    ("vgg", "pau", CHANNEL),
    ("vgg8", "pau", {}),
    ("vgg8", "pau", {"groups": 4}),
    ("vgg8", "maxout", {}),
    ("mobilenetv2", "pau", {}),
    ("mobilenetv2", "pau", {"groups": 2}),
    ("mobilenetv2", "apl", {}),
    ("mobilenetv2", "maxout", {}),
    ("mobilenetv2-imagenet", "rpau", CHANNEL),
    ("resnet101", "pau", {}),
    ("densenet121", "pau", CHANNEL),
]


def example(name, images=1):
    size = 64 if NETS[name].any_size else NETS[name].size
    draw = torch.Generator().manual_seed(1)
    shape = (images, NETS[name].channels, size, size)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def make(name, activation="pau", seed=0, **options):
    torch.manual_seed(seed)
    return shake(build(name, activation, **options).double(), seed)


@pytest.mark.parametrize("name, activation, options", CASES)
def test_a_pruned_net_gives_what_the_masked_one_gives(name, activation, options):
    net, x = make(name, activation, **options), example(name)
    pruned, pruning = padenet.prune(net, 40, example=x)
    with torch.no_grad():
        whole, want, got = net(x), masked(net, name, pruning)(x), pruned(x)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    assert (want - whole).abs().max() > 1e-3, "the mask changes nothing"
    assert not pruning.left
    convolutions = [k for k, m in net.named_modules() if isinstance(m, nn.Conv2d)]
    assert sorted(pruning.filters) == sorted(convolutions)
    pieces = 2 if activation == "maxout" else 1
    for conv, kept in pruning.filters.items():
        if options.get("groups") in (None, "channel"):
            doubled = kept.of // pieces if _has_unit(net, conv) else kept.of
            assert kept.of - len(kept.places) == (kept.of // doubled) * (4 * doubled // 10), conv
    assert pruning.after.parameters == sum(p.numel() for p in pruned.parameters())
    assert pruning.before.parameters == sum(p.numel() for p in net.parameters())
    assert pruning.after.multiplications < 0.65 * pruning.before.multiplications


def _has_unit(net, conv):
    """Whether a Maxout takes the maximum of its filters."""
    holder, _, last = conv.rpartition(".")
    if not holder:
        return True
    names = [n for n, _ in net.get_submodule(holder).named_children()]
    return names[names.index(last) + 1 :][:1] == ["act"]


def test_the_trunk_of_a_residual_net_keeps_its_width():
    net, x = make("mobilenetv2"), example("mobilenetv2")
    pruned, pruning = padenet.prune(net, 60, example=x)
    spread = {n for n, m in pruned.named_modules() if isinstance(m, Spread)}
    assert "block2_2.path.project.bn.spread" in spread
    assert "block2_1.shortcut.bn.spread" in spread
    assert not any("expand" in n or "depthwise" in n or "last" in n for n in spread)
    assert pruned.block2_2.path.project.conv.out_channels == 24 - 14
    assert pruned.block2_2.path.expand.conv.in_channels == 24
    block = "block3_2.path"
    expand, depthwise = (pruning.filters[f"{block}.{n}.conv"] for n in ("expand", "depthwise"))
    assert expand == depthwise


def test_a_depthwise_convolution_adds_its_norms_to_the_one_before():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 1, bias=False),
        nn.Conv2d(4, 4, 1, groups=4, bias=False),
        nn.Conv2d(4, 2, 1),
    )
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([3.0, 1.0, 2.0, 4.0]).reshape(4, 1, 1, 1))
        net[1].weight.copy_(torch.tensor([-0.5, 9.0, 2.0, 1.0]).reshape(4, 1, 1, 1))
    _, pruning = padenet.prune(net, 50, example=torch.ones(1, 1, 2, 2))
    assert pruning.filters["0"].places == pruning.filters["1"].places == (1, 3)
    assert pruning.left == (("2", "its filters are the model's output"),)


@pytest.mark.parametrize("criterion, places", [("l1", (0, 3)), ("sum", (1, 3))])
def test_the_weakest_filters_go(criterion, places):
    net = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    weights = torch.tensor([[-9.0, 0.0], [1.0, 1.0], [-1.0, 2.0], [4.0, 4.0]])
    with torch.no_grad():
        net[0].weight.copy_(weights.reshape(4, 2, 1, 1))
    x = torch.randn(3, 2, 1, 1)
    pruned, pruning = padenet.prune(net, 50, example=x, criterion=criterion)
    assert pruning.filters["0"] == (places, 4)
    assert torch.equal(pruned[0].weight, net[0].weight[list(places)])
    assert torch.equal(pruned[0].bias, net[0].bias[list(places)])
    assert torch.equal(pruned[2].weight, net[2].weight[:, list(places)])


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.integers(84, 9999), min_size=2, max_size=4, unique=True),
    st.sampled_from(["l1", "sum"]),
)
def test_counts_and_nesting(hundredths, criterion):
    net, x = make("lenet"), example("lenet")
    before = None
    for number in sorted(hundredths):
        _, pruning = padenet.prune(net, number / 100, example=x, criterion=criterion)
        for name, kept in pruning.filters.items():
            gone = min(number * kept.of // 10_000, kept.of - 1)
            assert len(kept.places) == kept.of - gone
            assert before is None or set(kept.places) <= set(before.filters[name].places)
        before = pruning


@pytest.mark.parametrize("fraction, gone", [(29, 29), (57, 57), (58, 58), (14.5, 14), (99.9, 99)])
def test_percentages_are_exact(fraction, gone):
    net = nn.Sequential(nn.Conv2d(1, 100, 1), nn.Flatten(), nn.Linear(100, 1))
    pruned, _ = padenet.prune(net, fraction, example=torch.ones(1, 1, 1, 1))
    assert pruned[0].out_channels == pruned[2].in_features == 100 - gone


def test_units_with_groups_stay_equally_wide():
    net, x = make("lenet", groups=2), example("lenet")
    pruned, pruning = padenet.prune(net, 50, example=x)
    for kept in pruning.filters.values():
        low = sum(p < kept.of // 2 for p in kept.places)
        assert 2 * low == len(kept.places)
    assert pruned.act1.groups == 2 and torch.equal(pruned.act1.a, net.act1.a)


def test_a_unit_a_channel_may_end_as_one():
    net, x = make("lenet", **CHANNEL), example("lenet")
    pruned, pruning = padenet.prune(net, 99, example=x)
    (place,) = pruning.filters["conv1"].places
    assert pruned.act1.groups == 1
    assert torch.equal(pruned.act1.a, net.act1.a[place])
    pruned.act1.reset_parameters()


def test_starts_of_a_converted_prelu_go_with_its_channels():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.PReLU(6), nn.Flatten(), nn.Linear(96, 3))
    with torch.no_grad():
        net[1].weight.copy_(torch.linspace(0.1, 0.6, 6))
    net, _ = padenet.convert(net)
    pruned, pruning = padenet.prune(net, 50, example=torch.randn(1, 1, 6, 6))
    places = list(pruning.filters["0"].places)
    before = pruned[1].a.detach().clone()
    assert torch.equal(before, net[1].a[places])
    pruned[1].reset_parameters()
    assert torch.equal(pruned[1].a, before)


@pytest.mark.parametrize(
    "name, activation, options", [("mobilenetv2", "maxout", {}), ("lenet", "pau", CHANNEL)]
)
def test_pruning_further_counts_what_is_gone(name, activation, options):
    net, x = make(name, activation, **options), example(name)
    first, begun = padenet.prune(net, 20, example=x)
    further, pruning = padenet.prune(first, 50, example=x, after=begun)
    at_once, direct = padenet.prune(net, 50, example=x)
    assert pruning.before == direct.before and pruning.after == direct.after
    for conv, kept in pruning.filters.items():
        assert len(kept.places) == len(direct.filters[conv].places)
        assert set(kept.places) <= set(begun.filters[conv].places)
    again = padenet.apply_pruning(net, pruning)
    with torch.no_grad():
        torch.testing.assert_close(further(x), masked(net, name, pruning)(x), rtol=1e-9, atol=1e-9)
        assert torch.equal(again(x), further(x))
    assert str(again) == str(further) == str(at_once)
    with pytest.raises(ValueError, match=r"after is not the pruning of this model: .* has "):
        padenet.prune(further, 60, example=x, after=begun)


def test_a_stranger_rebuilds_the_net_from_two_files(tmp_path):
    net, x = make("mobilenetv2", "pau", **CHANNEL), example("mobilenetv2")
    pruned, pruning = padenet.prune(net, 30, example=x)
    pruning.save(tmp_path / "pruning.json")
    torch.save(pruned.state_dict(), tmp_path / "weights.pt")
    loaded = Pruning.load(tmp_path / "pruning.json")
    assert loaded == pruning and [p.name for p in tmp_path.iterdir()] != []
    again = padenet.apply_pruning(make("mobilenetv2", "pau", seed=9, **CHANNEL), loaded)
    again.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    with torch.no_grad():
        assert torch.equal(again(x), pruned(x))
    assert again.pruning == pruning


def test_rewinding_is_exact():
    net = make("vgg8", **CHANNEL)
    _, pruning = padenet.prune(make("vgg8", seed=3, **CHANNEL), 60, example=example("vgg8"))
    rewound, first = padenet.apply_pruning(net, pruning), net.state_dict()
    values = {k: v for k, v in rewound.state_dict().items() if not k.endswith("_extra_state")}
    for name, value in values.items():
        cut = pruning.cuts.get(name.rpartition(".")[0])
        want = first[name]
        if want.ndim:
            want = want[list(cut.outputs.places)] if cut.outputs else want
        if want.ndim > 1 and cut.inputs:
            want = want[:, list(cut.inputs.places)] if name.endswith("weight") else want
        assert torch.equal(value, want), name


def test_a_pruned_net_is_copied_and_pickled():
    net, x = make("mobilenetv2", "srelu"), example("mobilenetv2")
    pruned, pruning = padenet.prune(net, 30, example=x)
    for other in (copy.deepcopy(pruned), pickle.loads(pickle.dumps(pruned))):
        with torch.no_grad():
            assert torch.equal(other(x), pruned(x))
        assert other.pruning == pruning


def test_mode_dtype_layout_and_frozen_parameters_are_kept():
    net = build("vgg8", "pau").to(memory_format=torch.channels_last)
    net.block1.conv.weight.requires_grad_(False)
    net.block2.bn.eval()
    pruned, _ = padenet.prune(net, 30, example=torch.randn(1, 3, 32, 32))
    assert pruned.training and pruned.block1.training and not pruned.block2.bn.training
    assert net.training and not net.block2.bn.training
    assert not pruned.block1.conv.weight.requires_grad and pruned.block2.conv.weight.requires_grad
    weight = pruned.block3.conv.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert weight.dtype == torch.float32 and weight.is_leaf


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_zeros_take_the_places_of_removed_filters(memory_format):
    x = torch.randn(2, 3, 4, 5).to(memory_format=memory_format)
    y = Spread([1, 4, 5], 7)(x)
    assert y.is_contiguous(memory_format=memory_format) and y.shape == (2, 7, 4, 5)
    assert torch.equal(y[:, [1, 4, 5]], x) and not y[:, [0, 2, 3, 6]].any()
    assert torch.equal(Spread([0], 2)(torch.ones(3, 1)), torch.tensor([[1.0, 0.0]] * 3))


def test_a_pruned_net_trains_and_only_what_is_left_has_gradients():
    net, x = make("mobilenetv2"), example("mobilenetv2", 2)
    pruned, _ = padenet.prune(net, 60, example=x)
    pruned.train()(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in pruned.parameters())


def test_the_report_reads_well():
    _, pruning = padenet.prune(make("lenet"), 50, example=example("lenet"))
    assert str(pruning).splitlines() == [
        "50 % of the filters of 3 convolutions: 61,746 → 18,760 parameters, "
        "416,520 → 136,680 multiplications",
        "  convolution  filters  stay",
        "  conv1              6     3",
        "  conv2             16     8",
        "  conv3            120    60",
    ]
    summary = pruning.summary()
    assert summary["filters"] == 71 and summary["whole_filters"] == 142
    assert summary["whole_parameters"] == 61_746 and math.isclose(summary["fraction"], 50)
