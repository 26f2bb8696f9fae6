"""The table of activations: its values, options and errors."""

import pytest
import torch
from torch import nn

import padenet
from padenet.torch.registry import ACTIVATIONS, find_activations, make_activation

pytestmark = pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch")
PAPER = {
    *("relu", "relu6", "lrelu", "rrelu", "elu", "celu", "swish", "prelu", "maxout", "mixture"),
    *("slaf", "apl", "srelu", "pau", "rpau"),
}
PARAMETERS = {"prelu": 1, "mixture": 2, "slaf": 6, "pau": 10, "rpau": 10, "apl": 32, "srelu": 32}


def test_the_paper_is_complete():
    assert set(ACTIVATIONS) >= PAPER
    assert padenet.make_activation is make_activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_is_made_new_without_random_numbers(name):
    state = torch.get_rng_state()
    first, second = make_activation(name, 8), make_activation(name, 8)
    assert torch.equal(torch.get_rng_state(), state)
    assert sum(p.numel() for p in first.parameters()) == PARAMETERS.get(name, 0)
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert first is not second and all(torch.equal(p, q) and p is not q for p, q in pairs)


@pytest.mark.parametrize("shape", [(3, 8), (3, 8, 4, 4)], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_shape_and_dtype(name, shape):
    wanted = torch.Size((3, 4, *shape[2:]) if name == "maxout" else shape)
    y = make_activation(name, 8)(torch.randn(shape))
    assert y.shape == wanted and y.dtype == torch.float32


AT_MINUS_2_AND_7 = {
    "relu": (0, 7),
    "relu6": (0, 6),
    "lrelu": (-0.02, 7),
    "rrelu": (-2 * 11 / 48, 7),
    "elu": (-0.8646647, 7),
    "celu": (-0.8646647, 7),
    "swish": (-0.2384058, 6.9936223),
    "prelu": (-0.5, 7),
    "mixture": (-1, 7),
    "apl": (0, 7),
    "srelu": (-0.4, 7),
    "identity": (-2, 7),
}


@pytest.mark.parametrize("name", AT_MINUS_2_AND_7)
def test_values(name):
    unit = make_activation(name, 1).eval()
    y = unit(torch.tensor([[-2.0], [7.0]]))
    assert y.flatten().tolist() == pytest.approx(AT_MINUS_2_AND_7[name], rel=1e-6)


def test_rrelu_draws_its_slopes():
    torch.manual_seed(0)
    slopes = -make_activation("rrelu")(-torch.ones(10_000))
    assert 1 / 8 <= slopes.min() < 0.126 and 0.332 < slopes.max() <= 1 / 3
    assert slopes.mean().item() == pytest.approx(11 / 48, abs=0.003)  # 5 standard errors


def test_options_reach_the_class():
    unit = make_activation("rpau", init="tanh", alpha=0.1, form="safe", degrees=(5, 4), groups=2)
    assert isinstance(unit, padenet.RPAU) and unit.alpha == 0.1 and unit.init == "tanh"
    assert unit.a.shape == (2, 6)
    assert make_activation("lrelu", negative_slope=0.25)(torch.tensor(-1.0)).item() == -0.25
    assert make_activation("pau", 12, groups="channel").a.shape == (12, 6)
    assert make_activation("apl", 5, hinges=3).slopes.shape == (3, 5)
    assert make_activation("maxout", pieces=4)(torch.ones(1, 8)).shape == (1, 2)


WRONG = [
    (dict(name="pua"), ValueError, "unknown activation 'pua'. Did you mean 'pau'\\? Known: relu,"),
    (dict(name="relu", alpha=0.1), TypeError, "'relu' cannot be made with alpha=0.1: .*'alpha'"),
    (dict(name="sigmoid", q=1), TypeError, "'sigmoid' cannot be made with q=1"),
    (dict(name="identity", q=1), TypeError, "'identity' cannot be made with q=1"),
    (dict(name="maxout", init="relu"), TypeError, "'maxout' cannot be made with init='relu'"),
    (dict(name="rpau", alhpa=0.1), TypeError, "'rpau' cannot be made with alhpa=0.1"),
    (dict(name="pau", alpha=0.1), TypeError, "'pau' cannot be made with alpha=0.1"),
    (dict(name="apl"), ValueError, r"each channel. .* make_activation\('apl', channels=64\)"),
    (dict(name="srelu"), ValueError, "'srelu' has parameters for each channel"),
    (dict(name="pau", groups="channel"), ValueError, "'pau' has parameters for each channel"),
    (dict(name="srelu", channels=0), ValueError, "channels=0 must be a whole number from 1 on"),
]


@pytest.mark.parametrize("arguments, error, says", WRONG, ids=[str(w[0]) for w in WRONG])
def test_errors_say_what_to_do(arguments, error, says):
    with pytest.raises(error, match=says):
        make_activation(**arguments)


def test_a_line_of_your_own(monkeypatch):
    class Cube(nn.Module):
        def forward(self, x):
            return x**3

    monkeypatch.setitem(ACTIVATIONS, "cube", Cube)
    model = nn.Sequential(make_activation("cube"), nn.Linear(1, 1), make_activation("pau"))
    assert model[0](torch.tensor(2.0)).item() == 8
    assert {name: type(m) for name, m in find_activations(model).items()} == {
        "0": Cube,
        "2": padenet.PAU,
    }


def test_find_activations_counts_a_shared_module_once():
    unit = nn.ReLU()
    model = nn.Sequential(unit, nn.Identity(), unit, nn.Sequential(nn.GELU()))
    assert find_activations(model) == {"0": unit, "3.0": model[3][0]}
