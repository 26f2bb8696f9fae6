"""``rational`` among torch's other machinery: autocast, modes, subclasses, checkpoints, threads."""

import threading
from contextlib import nullcontext

import pytest
import torch
from formula import CASES, Case, assert_near, formula, problem
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import padenet
from padenet.core.forms import Spec
from padenet.torch import functional

pytestmark = pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch")
GROUPED = Case(groups=2)


def gradients(f, args):
    args = [t.detach().clone().requires_grad_() for t in args]
    y = f(*args)
    return y.detach(), *torch.autograd.grad(y.square().sum(), args)


def rational(x, a, b):
    return padenet.rational(x, a, b)


class Count(TorchDispatchMode):
    """Sees every operation and changes none."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [lambda: FlopCounterMode(display=False), Count])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_dispatch_modes(mode, case):
    args = problem(case)
    expected = gradients(lambda *p: formula(*p, **case.options), args)
    with mode() as active:
        actual = gradients(lambda *p: padenet.rational(*p, **case.options), args)
    assert_near(actual, expected, 256)
    assert isinstance(active, FlopCounterMode) or active.calls > 20


def test_mode_entered_between_forward_and_backward():
    args = [t.requires_grad_() for t in problem(GROUPED)]
    y = rational(*args)
    with Count() as active:
        actual = torch.autograd.grad(y.sum(), args)
    assert active.calls > 20
    assert_near(actual, torch.autograd.grad(formula(*args).sum(), args), 256)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_meta(case):
    x, a, b = (t.to("meta").requires_grad_() for t in problem(case))
    y = padenet.rational(x, a, b, **case.options)
    y.sum().backward()
    assert y.is_meta and y.shape == x.shape and y.dtype == x.dtype
    assert [t.grad.shape for t in (x, a, b)] == [x.shape, a.shape, b.shape]


def test_unit_made_and_run_on_meta():
    unit = padenet.RPAU(groups=2, device="meta")
    assert unit(torch.empty(3, 4, device="meta")).is_meta
    unit.to_empty(device="cpu").reset_parameters()
    x = torch.randn(3, 4)
    assert torch.equal(unit.eval()(x), padenet.PAU(groups=2)(x))


@pytest.mark.no_poison
@pytest.mark.parametrize("unit", [padenet.PAU, padenet.RPAU])
def test_fake_tensors(unit):
    with FakeTensorMode():
        layer = unit(groups=2)
        x = torch.randn(3, 4, 5, 5).to(memory_format=torch.channels_last).requires_grad_()
        y = layer(x)
        y.sum().backward()
    assert y.shape == x.shape and y.stride() == x.stride()
    assert layer.a.grad.shape == (2, 6) and x.grad.shape == x.shape


class Marked(torch.Tensor):
    """A subclass that only carries its type."""


class Doubled(torch.Tensor):
    """A wrapper that stands for twice its inner tensor: reading its memory would be wrong."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        full = lambda t: 2 * t.inner if isinstance(t, Doubled) else t
        return func(*tree_map(full, args), **(kwargs or {}))


def test_subclass_keeps_its_type():
    x, a, b = problem(GROUPED)
    y = rational(x.as_subclass(Marked), a, b)
    assert type(y) is Marked
    assert_near(y.as_subclass(torch.Tensor), formula(x, a, b), 256)


def test_subclass_without_memory():
    x, a, b = problem(GROUPED)
    assert_near(rational(Doubled(x / 2), a, b), formula(x, a, b), 256)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4)])
def test_lazily_negated_memory(shape):
    """``z.conj().imag`` is a view with a sign bit: its memory holds the opposite numbers."""
    x, a, b = problem(Case(), shape)
    args = torch.complex(x, -x).conj().imag, a, b
    assert args[0].is_neg()
    assert_near(rational(*args), formula(x, a, b), 256)
    for dy in (args[0], torch.complex(x, -x[:1, :1]).conj().imag[:1, :1].expand(shape)):
        args = [t.detach().clone().requires_grad_() for t in (x, a, b)]
        actual = torch.autograd.grad(rational(*args), args, dy)
        assert_near(actual, torch.autograd.grad(formula(*args), args, dy.resolve_neg()), 256)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_input_with_float32_coefficients(dtype):
    """Computed in float32 and rounded once; each gradient has the dtype of its tensor."""
    x, a, b = problem(GROUPED, (64, 4), torch.float32)
    x = x.to(dtype)
    y, dx, da, db = gradients(rational, (x, a, b))
    expected = formula(x.double(), a.double(), b.double())
    torch.testing.assert_close(
        y.double(), expected, rtol=torch.finfo(dtype).eps / 2 + 1e-5, atol=1e-5
    )
    assert (y.dtype, dx.dtype, da.dtype, db.dtype) == (dtype, dtype, torch.float32, torch.float32)


def test_model_trains_under_autocast():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), padenet.PAU(), nn.Linear(16, 16), padenet.RPAU(groups=4))
    head = nn.Linear(16, 1)
    params = [*net.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(params, 0.01)
    x = torch.randn(64, 4)
    target = x.prod(1, keepdim=True)
    losses = []
    for _ in range(60):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = net(x)
            out = head(hidden)
        assert hidden.dtype == torch.bfloat16
        loss = (out.float() - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in params)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("mode", [nullcontext, Count])
def test_autocast_leaves_float32_input_alone(mode):
    args = problem(GROUPED, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16), mode():
        actual = gradients(rational, args)
    assert all(t.dtype == torch.float32 for t in actual)
    assert_near(actual, gradients(formula, [t.double() for t in args]), 64)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("unit", [padenet.PAU, padenet.RPAU])
def test_activation_checkpoint(unit, reentrant):
    """The second forward, made in backward, repeats the noise of the first."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), unit(groups=2), nn.Linear(8, 8), unit("tanh"))
    if unit is padenet.RPAU:
        net[1].alpha = net[3].alpha = 0.5

    def run(call):
        torch.manual_seed(1)
        net.zero_grad()
        x = torch.ones(3, 4, requires_grad=True)
        call(x).square().sum().backward()
        return [x.grad, *(p.grad.clone() for p in net.parameters())]

    actual = run(lambda x: checkpoint(net, x, use_reentrant=reentrant))
    for u, v in zip(actual, run(net), strict=True):
        assert torch.equal(u, v)


def test_only_input_and_coefficients_are_saved():
    saved = []
    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t)
    x, unit = torch.randn(7, 4, requires_grad=True), padenet.RPAU(groups=2)
    with keep:
        y = unit(x)
    assert sorted(tuple(t.shape) for t in saved) == [(), (2, 4), (2, 6), (7, 4)]
    assert any(t.data_ptr() == x.data_ptr() for t in saved)  # x itself, not a copy
    y.sum().backward()


def test_in_place_change_of_a_saved_tensor_is_noticed():
    x, a, b = (t.requires_grad_() for t in problem(GROUPED))
    y = rational(x, a, b)
    with torch.no_grad():
        a.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradient_only_where_asked():
    """A tensor that needs no gradient gets none, whichever it is."""
    for wanted in range(3):
        args = problem(GROUPED)
        args[wanted].requires_grad_()
        rational(*args).sum().backward()
        other = problem(GROUPED)
        other[wanted].requires_grad_()
        formula(*other).sum().backward()
        assert [t.grad is not None for t in args] == [i == wanted for i in range(3)]
        assert_near(args[wanted].grad, other[wanted].grad, 256)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_without_autograd(guard):
    x, a, b = (t.requires_grad_() for t in problem(GROUPED))
    with guard():
        y = rational(x, a, b)
    assert not y.requires_grad
    assert_near(y.clone(), formula(x, a, b), 256)


def test_backward_in_many_threads():
    """Units shared by threads that run forward and backward at the same time."""
    x, a, b = problem(GROUPED, (64, 4))
    expected = gradients(formula, (x, a, b))
    found = [None] * 8

    def work(i):
        for _ in range(5):
            found[i] = gradients(rational, (x, a, b))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(found))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for actual in found:
        assert_near(actual, expected, 256)


def test_one_graph_with_many_branches():
    """Several units on one input; the gradients are summed by the engine, twice."""
    args = [t.requires_grad_() for t in problem(GROUPED)]
    total = lambda f: sum(f(args[0] * k, *args[1:]).sum() for k in range(1, 5))
    y = total(rational)
    expected = torch.autograd.grad(total(formula), args)
    for _ in range(2):
        assert_near(torch.autograd.grad(y, args, retain_graph=True), expected, 512)


LEAD_IS_ZERO = torch.tensor([0.5, 1.0, 2.0, 0.0]), torch.tensor([0.0, 3.0, 0.0])


@pytest.mark.parametrize("mode", [nullcontext, Count])
def test_zero_leading_coefficient_far_out(mode):
    """x = 10^6 and a_3 = b_3 = 0: F = 2/3, and the gradients of a_3 and b_3 are not zero."""
    args = torch.full((2, 3), 1e6), *LEAD_IS_ZERO
    expected = gradients(formula, [t.double() for t in args])
    with mode():
        actual = gradients(rational, args)
    assert expected[2][3] > 1e5
    assert_near(actual[:1] + actual[2:], expected[:1] + expected[2:], 64)


def test_noise_of_a_given_key():
    x, a, b = problem(GROUPED, dtype=torch.float32)
    f = lambda key: functional.apply(x, a, b, torch.tensor(key), Spec(alpha=0.5))
    assert torch.equal(f(5), f(5)) and not torch.equal(f(5), f(6))
    with Count():
        watched = f(5)
    assert_near(watched, f(5), 16)
