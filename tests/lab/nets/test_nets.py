"""The nets: every number of the paper, seeds, gradients, precisions, errors and the docs' table."""

import copy

import pytest
import torch
import torch.nn.functional as F
from tools import ROOT
from torch import nn

from padenet.lab.nets import NETS, __main__, build, count_multiplications, count_parameters
from padenet.torch.registry import ACTIVATIONS, find_activations

pytestmark = [
    pytest.mark.no_poison,  # which hides torch.empty from torch.device("meta")
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore:TF32 acceleration"),  # of torch.backends.mkldnn.flags
]

SIZES = {  # parameters without those of units, units, parameters with PAU
    "lenet": (61_706, 4, 61_746),
    "vgg": (9_224_458, 5, 9_224_508),
    "vgg8": (3_918_858, 5, 3_918_908),
    "mobilenetv2": (2_296_922, 36, 2_297_282),
    "resnet101": (42_512_970, 100, 42_513_970),
    "densenet121": (6_956_298, 120, 6_957_498),
    "mobilenetv2-imagenet": (3_504_872, 35, 3_505_222),
    "mlp": (8_970, 2, 8_990),
    "conv": (40_394, 4, 40_434),
    "conv-norm": (24_170, 3, 24_200),
    "vit": (20_074, 2, 20_094),
    "gru": (6_794, 1, 6_804),
}
MAXOUT = {"vgg8": 7_829_642, "mobilenetv2": 3_524_506, "resnet101": 75_454_090}
MULTIPLICATIONS = {"lenet": 416_520, "mobilenetv2-imagenet": 300_774_272}


def images(name, batch=2, seed=0):
    net = NETS[name]
    size = 32 if net.any_size else net.size
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, net.channels, size, size, generator=generator)


def seeded(name, activation, **options):
    torch.manual_seed(0)
    return build(name, activation, **options)


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    plain, units, with_pau = SIZES[name]
    assert count_parameters(name, "relu") == plain
    assert count_parameters(name, "pau") == with_pau
    with torch.device("meta"):
        for activation in ("pau", "srelu", "swish"):
            assert len(find_activations(build(name, activation))) == units


@pytest.mark.parametrize("name", MAXOUT)
def test_sizes_with_maxout(name):
    assert count_parameters(name, "maxout") == MAXOUT[name]


def test_every_net_is_checked():
    assert list(SIZES) == list(NETS)


@pytest.mark.parametrize("name", MULTIPLICATIONS)
def test_multiplications(name):
    assert count_multiplications(name) == MULTIPLICATIONS[name]


def test_lenet_multiplications_by_hand():
    convs = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 6 * 25 + 120 * 16 * 25
    assert count_multiplications("lenet", classes=7) == convs + 120 * 84 + 84 * 7


@pytest.mark.parametrize("name", NETS)
def test_training_reaches_every_parameter(name):
    model, x = seeded(name, "pau"), images(name)
    y = model(x)
    assert y.shape == (2, NETS[name].classes)
    y.square().mean().backward()
    still = [k for k, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not still and all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", NETS)
def test_evaluation_is_deterministic_and_copies_are_equal(name):
    model, x = seeded(name, "rpau").eval(), images(name)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        y = model(x)
        assert y.isfinite().all()
        assert torch.equal(model(x), y) and torch.equal(twin(x), y)
        # The images do not see each other, but for the rounding of sums in another order.
        torch.testing.assert_close(model(x[1:]), y[1:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", NETS)
def test_a_seed_gives_the_same_weights_with_every_activation(name):
    weights = dict(seeded(name, "relu").named_parameters())
    for activation in ("pau", "apl"):
        model = seeded(name, activation)
        own = {id(p) for unit in find_activations(model).values() for p in unit.parameters()}
        others = {k: p for k, p in model.named_parameters() if id(p) not in own}
        assert list(others) == list(weights)
        assert all(torch.equal(p, weights[k]) for k, p in others.items())


def test_lenet_by_hand():
    net, x = seeded("lenet", "relu"), images("lenet")
    y = F.max_pool2d(F.relu(F.conv2d(x, net.conv1.weight, net.conv1.bias)), 2)
    y = F.max_pool2d(F.relu(F.conv2d(y, net.conv2.weight, net.conv2.bias)), 2)
    y = F.relu(F.conv2d(y, net.conv3.weight, net.conv3.bias))[:, :, 0, 0]
    y = F.linear(F.relu(net.fc1(y)), net.fc2.weight, net.fc2.bias)
    torch.testing.assert_close(net(x), y)


def test_vgg_by_hand():
    net, x = seeded("vgg", "relu"), images("vgg")
    y = x
    for i in range(1, 6):
        block = getattr(net, f"block{i}")
        y = block.conv2(block.conv1(y)) if i > 2 else block.conv1(y)
        y = F.max_pool2d(F.relu(y), 2)
    torch.testing.assert_close(net(x), net.fc(y.flatten(1)))


def test_vgg8_by_hand():
    net, x = seeded("vgg8", "relu"), images("vgg8")
    y = x
    for i in range(1, 6):
        block = getattr(net, f"block{i}")
        y = F.max_pool2d(F.relu(F.batch_norm(block.conv(y), None, None, training=True)), 2)
    torch.testing.assert_close(net(x), net.fc(y.flatten(1)))


def test_blocks_by_hand(gen):
    """In evaluation: a block with a projection in its shortcut, one without, a dense layer."""
    resnet, x = seeded("resnet101", "relu").eval(), torch.randn(2, 64, 8, 8, generator=gen)
    for block in (resnet.block1_1, resnet.block1_2):
        conv1, conv2, conv3 = block.path
        y = F.relu(conv1.bn(conv1.conv(x)))
        y = F.relu(conv2.bn(conv2.conv(y)))
        y = F.relu(conv3.bn(conv3.conv(y)) + block.shortcut(x))
        torch.testing.assert_close(block(x), y)
        x = y.detach()

    mobile, x = seeded("mobilenetv2", "relu").eval(), torch.randn(2, 24, 8, 8, generator=gen)
    block = mobile.block2_2
    expand, depthwise, project = block.path
    y = F.relu(expand.bn(expand.conv(x)))
    y = F.relu(depthwise.bn(depthwise.conv(y)))
    torch.testing.assert_close(block(x), project.bn(project.conv(y)) + x)

    dense, x = seeded("densenet121", "relu").eval(), torch.randn(2, 64, 8, 8, generator=gen)
    layer = dense.block1_1
    y = layer.reduce.conv(F.relu(layer.reduce.bn(x)))
    y = layer.grow.conv(F.relu(layer.grow.bn(y)))
    torch.testing.assert_close(layer(x), torch.cat([x, y], 1))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_lenet_with_every_activation(activation):
    y = seeded("lenet", activation)(images("lenet"))
    assert y.shape == (2, 10) and y.isfinite().all()


@pytest.mark.parametrize("activation", ["maxout", "apl"])
@pytest.mark.parametrize("name", [n for n in NETS if n not in ("densenet121", "vit")])
def test_widths_fit_everywhere(name, activation):
    twice = activation == "maxout"
    assert (count_multiplications(name, activation) > count_multiplications(name)) == twice


def test_maxout_comes_before_batch_normalisation():
    block = build("vgg8", "maxout").block2
    assert [n for n, _ in block.named_children()] == ["conv", "act", "bn", "pool"]
    assert (block.conv.out_channels, block.bn.num_features) == (256, 128)
    block = build("vgg8", "relu").block2
    assert [n for n, _ in block.named_children()] == ["conv", "bn", "act", "pool"]


def test_maxout_in_resnet101_follows_the_projections_and_no_sum():
    with torch.device("meta"):
        model = build("resnet101", "maxout")
    units = list(find_activations(model))
    assert len(units) == 1 + 33 * 2 + 4
    in_shortcuts = [u for u in units if "shortcut" in u]
    assert in_shortcuts == [f"block{i}_1.shortcut.act" for i in range(1, 5)]
    assert isinstance(model.block1_1.act, nn.Identity)


def test_options_reach_every_unit():
    model = build("lenet", "rpau", init="tanh", alpha=0.1, groups="channel")
    units = find_activations(model)
    assert list(units) == ["act1", "act2", "act3", "act4"]
    assert {(u.init, u.alpha) for u in units.values()} == {("tanh", 0.1)}
    assert [u.groups for u in units.values()] == [6, 16, 120, 84]


def test_other_images_and_classes():
    model = build("vgg8", "relu", classes=100, in_channels=1)
    assert model(torch.ones(2, 1, 32, 32)).shape == (2, 100)
    model = build("mobilenetv2-imagenet", "relu6", classes=3).eval()
    assert model(torch.ones(1, 3, 64, 96)).shape == (1, 3)


@pytest.mark.parametrize("name", ["lenet", "vgg8", "mobilenetv2", "densenet121"])
def test_bfloat16_and_channels_last(name):
    """Without oneDNN, whose bfloat16 crashes on machines that report AMX and forbid it."""
    model = seeded(name, "pau").to(memory_format=torch.channels_last)
    x = images(name).to(memory_format=torch.channels_last)
    formats = []
    for unit in find_activations(model).values():
        unit.register_forward_hook(
            lambda m, i, y: formats.append(
                y.dtype == torch.bfloat16
                and (y.ndim == 2 or y.is_contiguous(memory_format=torch.channels_last))
            )
        )
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        y = model(x)
        y.float().square().mean().backward()
    assert len(formats) == SIZES[name][1] and all(formats)
    assert y.dtype == torch.bfloat16
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_bfloat16_is_near():
    """Each of 5 layers and 4 units rounds its input, weights and output by half an eps."""
    model, x = seeded("lenet", "pau"), images("lenet")
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        y = model(x)
    error = (y.float() - model(x)).norm() / model(x).norm()
    assert error < 9 * 3 / 2 * torch.finfo(torch.bfloat16).eps


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, used by dynamo itself
@pytest.mark.parametrize(
    "name, activation", [("lenet", "pau"), ("lenet", "maxout"), ("vgg8", "apl")]
)
def test_compiles_to_one_graph(name, activation):
    torch._dynamo.reset()
    model, x = seeded(name, activation), images(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    parameters = list(model.parameters())
    eager = torch.autograd.grad(model(x).square().mean(), parameters)
    actual = torch.autograd.grad(compiled(x).square().mean(), parameters)
    torch.testing.assert_close(actual, eager, rtol=1e-4, atol=1e-6)


WRONG = [
    (lambda: build("lent", "relu"), "unknown net 'lent'. Did you mean 'lenet'"),
    (lambda: build("lenet", "pua"), "unknown activation 'pua'. Did you mean 'pau'"),
    (lambda: build("densenet121", "maxout"), "densenet121 has no Maxout: its units come before"),
    (
        lambda: build("lenet", "relu")(torch.ones(2, 1, 28, 28)),
        r"lenet takes images \(N, 1, 32, 32\), got x of shape \(2, 1, 28, 28\). Pad or resize",
    ),
    (
        lambda: build("lenet", "relu")(torch.ones(2, 3, 32, 32)),
        r"got x of shape \(2, 3, 32, 32\). Build the net with in_channels=3",
    ),
    (lambda: build("lenet", "relu", classes=0), "classes=0 must be at least 1"),
    (lambda: build("vgg8", "relu", in_channels=-1), "in_channels=-1 must be at least 1"),
    (lambda: build("vgg8", "relu")(torch.ones(3, 32, 32)), r"\(3, 32, 32\). Pad or resize"),
    (
        lambda: build("mobilenetv2-imagenet", "relu")(torch.ones(1, 1, 64, 64)),
        r"takes images \(N, 3, any, any\), got x of shape \(1, 1, 64, 64\)",
    ),
]


@pytest.mark.parametrize("call, says", WRONG, ids=[w[1] for w in WRONG])
def test_errors_say_what_to_do(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_the_table_in_the_docs_is_what_the_command_prints(capsys):
    __main__.main()
    table = capsys.readouterr().out
    docs = ROOT / "docs" / "networks.md"
    assert table in docs.read_text(encoding="utf-8")
