"""``padenet.load``: a saved model with units comes back from the plain one."""

import copy
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import padenet


class Net(nn.Module):
    """A module that is called twice, functions, and a PReLU with a slope per channel."""

    def __init__(self):
        super().__init__()
        self.lin1, self.lin2, self.lin3 = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.act, self.prelu, self.last = nn.ReLU(), nn.PReLU(6), nn.Linear(6, 2)

    def forward(self, x):
        x = self.act(self.lin1(x))
        x = F.gelu(self.act(self.lin2(x)))
        return self.last(F.silu(self.prelu(self.lin3(x))))


HOW = {
    "all": {},
    "some": dict(only=["act", "gelu"]),
    "second": dict(only="act_2"),
    "shared": dict(share=True),
    "rpau": dict(unit=padenet.RPAU, alpha=0.25),
    "kind": dict(form="abs_terms", degrees=(3, 2)),
    "offset": dict(form="offset", q=0.1, groups=3),
}
WRITE = {
    "net.pt": lambda net, path: torch.save(net.state_dict(), path),
    "net.safetensors": lambda net, path: safetensors().save_model(net, str(path)),
}


def safetensors():
    return pytest.importorskip("safetensors.torch")


def converted(**how):
    """Trained a little, so that no unit is at its start."""
    torch.manual_seed(0)
    net, report = padenet.convert(Net(), **how)
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(1 + 0.1 * torch.rand_like(p))
    return net.eval(), report


def units(net):
    return {
        k: m for k, m in net.named_modules(remove_duplicate=False) if isinstance(m, padenet.PAU)
    }


def assert_same(net, saved, x=None):
    x = torch.linspace(-4, 4, 15).reshape(5, 3) if x is None else x
    assert torch.equal(net.eval()(x), saved(x))
    assert repr(net) == repr(saved)
    assert list(net.state_dict()) == list(saved.state_dict())


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@pytest.mark.parametrize("name", WRITE)
def test_a_converted_model_comes_back(name, how, tmp_path):
    saved, report = converted(**how)
    WRITE[name](saved, tmp_path / name)
    plain = Net()
    before = copy.deepcopy(plain.state_dict())
    net = padenet.load(tmp_path / name, plain)
    assert_same(net, saved)
    assert units(net).keys() >= {r.name for r in report.replaced}
    assert all(torch.equal(v, before[k]) for k, v in plain.state_dict().items()) and not units(
        plain
    )


def test_from_a_state_dict_too():
    saved, _ = converted()
    assert_same(padenet.load(saved.state_dict(), Net()), saved)


def test_a_model_that_has_units_keeps_them():
    make = lambda: nn.Sequential(
        nn.Linear(3, 4), padenet.PAU("tanh", q=0.5), nn.Linear(4, 1), nn.ReLU()
    )
    saved, net = make(), make()
    assert_same(padenet.load(saved.state_dict(), net), saved)
    net[1] = padenet.PAU()
    with pytest.raises(RuntimeError, match=r"unit '1'.*q=0\.5"):
        padenet.load(saved.state_dict(), net)


def test_a_file_of_the_plain_model_is_named(tmp_path):
    path = tmp_path / "plain.pt"
    torch.save(Net().state_dict(), path)
    with pytest.warns(UserWarning, match=r"plain\.pt holds no units, and none are made"):
        new = padenet.load(path, Net())
    assert not units(new)


def test_an_activation_alone():
    saved = padenet.PAU("tanh", groups=2)
    assert_same(padenet.load(saved.state_dict(), nn.ReLU()), saved, torch.randn(3, 2))


def test_a_unit_in_two_places(tmp_path):
    """Files of safetensors hold it once."""
    act = nn.ReLU()
    make = lambda: nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 4), act, nn.Linear(4, 2))
    saved, _ = padenet.convert(make(), share=True, form="abs_terms", degrees=(3, 2))
    for name, write in WRITE.items():
        write(saved, tmp_path / name)
        net = padenet.load(tmp_path / name, make())
        assert net[1] is net[3]
        assert_same(net, saved)


@pytest.mark.parametrize("weights", [torch.bfloat16, torch.float64])
def test_dtypes(weights):
    """Coefficients keep theirs where the weights do, and are cast where the weights are."""
    make = lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(weights)
    for dtype in (torch.float32, None):
        saved, _ = padenet.convert(make(), **({"dtype": dtype} if dtype else {}))
        net = padenet.load(saved.state_dict(), make())
        assert net[1].a.dtype == saved[1].a.dtype == (dtype or weights)
        other = padenet.load(saved.state_dict(), make().float())
        assert {p.dtype for p in other.parameters()} == {torch.float32}


def test_the_loaded_model_trains_as_the_saved_one():
    """Bounds of stabilize and groups of the optimiser too."""
    saved, _ = converted(form="offset", q=0.5)
    nets = [copy.deepcopy(saved), padenet.load(saved.state_dict(), Net())]
    x = torch.linspace(-4, 4, 15).reshape(5, 3)
    for net in nets:
        net.train()
        optimizer = torch.optim.Adam(padenet.param_groups(net, lr=0.05))
        padenet.stabilize(net, optimizer)
        for _ in range(5):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    pairs = zip(*(net.parameters() for net in nets), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_a_file_in_pieces(tmp_path):
    library = safetensors()
    saved, _ = converted()
    state = saved.state_dict()
    where = {k: f"model-{i % 2}.safetensors" for i, k in enumerate(state)}
    for name in set(where.values()):
        library.save_file({k: v for k, v in state.items() if where[k] == name}, tmp_path / name)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    assert_same(padenet.load(index, Net()), saved)
    assert_same(padenet.load(tmp_path, Net()), saved)


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(3, 6)

    def forward(self, x):
        return self.lin1(x).relu()


def test_what_does_not_fit(tmp_path):
    saved, _ = converted()
    state = saved.state_dict()
    with pytest.raises(
        ValueError, match=r"the state has units where Other has no activation: act, prelu, .*: relu"
    ):
        padenet.load(state, Other())
    with pytest.raises(ValueError, match=r"does not fit Net: it has besides more\.x"):
        padenet.load({**state, "more.x": torch.ones(1)}, Net())
    with pytest.raises(ValueError, match=r"it is without lin1\.bias"):
        padenet.load({k: v for k, v in state.items() if k != "lin1.bias"}, Net())
    old = {k: v for k, v in state.items() if not k.endswith("_extra_state")}
    with pytest.raises(ValueError, match=r"has besides act_2\.a, .*earlier versions .*convert"):
        padenet.load(old, Net())
    with pytest.raises(ValueError, match=r"no state dict.*checkpoint\['model'\]"):
        padenet.load({"model": state}, Net())
    with pytest.raises(TypeError, match=r"not 3"):
        padenet.load(state, 3)
    with pytest.raises(TypeError, match=r"and strict"):
        padenet.load(state, Net(), strict=False)
    with pytest.raises(ValueError, match=r"to_empty"):
        padenet.load(state, Net().to("meta"))
    with pytest.raises(FileNotFoundError, match=r"holds no weights: none of model\.safetensors"):
        padenet.load(tmp_path, Net())
    for name in WRITE:
        (tmp_path / name).write_bytes(b"not tensors")
        if name.endswith("safetensors"):
            safetensors()
        with pytest.raises(ValueError, match=f"{name} is no checkpoint of tensors"):
            padenet.load(tmp_path / name, Net())


def test_nothing_in_a_file_is_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("run",)

    torch.save({"x": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match="no checkpoint of tensors"):
        padenet.load(tmp_path / "evil.pt", Net())
