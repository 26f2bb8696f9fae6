"""``torch.fx`` and the tools built on it take a model with units: each call is one node."""

import copy
import operator

import pytest
import torch
from torch import fx, nn

import padenet

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]
X = torch.linspace(-3, 3, 24).reshape(2, 3, 2, 2)


class Net(nn.Module):
    """A unit that is called twice, a nested one, and the function itself."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.act = padenet.PAU("gelu")
        self.block = nn.Sequential(nn.Conv2d(4, 4, 1), padenet.RPAU("tanh", groups=2))
        self.a = nn.Parameter(torch.tensor([0.1, 1.0, 0.5]))
        self.b = nn.Parameter(torch.tensor([0.2]))

    def forward(self, x):
        x = self.block(self.act(self.conv(x)))
        return self.act(padenet.rational(x, self.a, self.b, q=0.5)) + x


@pytest.mark.parametrize("training", [False, True])
def test_symbolic_trace(training):
    net = Net().train(training)
    traced = fx.symbolic_trace(net)
    calls = [str(n.target) for n in traced.graph.nodes if n.op == "call_module"]
    assert calls == ["conv", "act", "block.0", "block.1", "act"]
    functions = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert functions == [padenet.rational, operator.add]
    for model in (traced, copy.deepcopy(traced), fx.Transformer(traced).transform()):
        torch.manual_seed(0)
        y = model(X)
        torch.manual_seed(0)
        assert torch.equal(y, net(X))


@pytest.mark.parametrize("unit", [padenet.PAU(groups=3), padenet.RPAU(form="free").eval()])
def test_symbolic_trace_of_a_unit_alone(unit):
    assert torch.equal(fx.symbolic_trace(unit)(X), unit(X))


def test_noise_of_a_unit_alone_is_not_lost():
    with pytest.raises(TypeError, match=r"RPAU in training as a whole model. Call eval\(\)"):
        fx.symbolic_trace(padenet.RPAU())


def test_coefficients_may_be_traced_values():
    def f(x, a, b):
        return padenet.rational(x, a, torch.cat([b, b]))

    a, b = torch.tensor([0.0, 1.0]), torch.tensor([0.5])
    assert torch.equal(fx.symbolic_trace(f)(X, a, b), f(X, a, b))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, on its observers
@pytest.mark.parametrize("training", [False, True])
def test_quantization(training):
    from torch.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx

    torch.manual_seed(0)
    net = Net().train(training)
    if training:
        prepared = prepare_qat_fx(net, get_default_qat_qconfig_mapping("x86"), (X,))
    else:
        prepared = prepare_fx(net, get_default_qconfig_mapping("x86"), (X,))
    units = [m for m in prepared.modules() if isinstance(m, padenet.PAU)]
    assert len(units) == 2
    prepared(X)
    if training:
        prepared(X).sum().backward()
        assert all(u.a.grad is not None for u in units)
    prepared.eval()
    y = convert_fx(prepared)(X)
    assert (y - net.eval()(X)).abs().max() < 0.1
