"""Every derivative torch can take of ``rational``, by value, against the plain formula.

A transform here is a function f -> (x, a, b) -> tensors, applied to ``rational`` and to the
formula. Both must give the same numbers.
"""

import pytest
import torch
from formula import CASES, Case, assert_near, formula, problem
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import padenet

pytestmark = [
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),  # torch uses it inside
]
ALL = (0, 1, 2)


def weights(t, seed=1):
    """Fixed numbers in the shape of ``t``: another factor for every element."""
    return torch.cos(torch.arange(seed, seed + t.numel(), dtype=t.dtype)).reshape(t.shape)


def loss(f):
    return lambda x, a, b: (f(x, a, b) * weights(x)).sum()


def leaves(*tensors):
    return [t.clone().requires_grad_() for t in tensors]


def stack(t, n=3):
    """A batch of ``n`` different tensors like ``t``."""
    return torch.stack([t * (1 + 0.1 * i) for i in range(n)])


def nested(order):
    """``order`` reverse passes, each through the one before."""

    def transform(f):
        def run(*args):
            args = leaves(*args)
            total = loss(f)(*args)
            for i in range(order):
                grads = torch.autograd.grad(total, args, create_graph=True)
                total = sum((g * weights(g, i)).sum() for g in grads)
            return grads

        return run

    return transform


def dual_numbers(f):
    def run(*args):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, weights(t)) for t in args]
            return forward_ad.unpack_dual(f(*duals))

    return run


def forward_over_reverse(f):
    def run(*args):
        args = leaves(*args)
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, weights(t, 2)) for t in args]
            grads = torch.autograd.grad(loss(f)(*duals), args)
            return [forward_ad.unpack_dual(g).tangent for g in grads]

    return run


def dual_through_older_graph(f):
    """The graph is built before the dual level; only the incoming gradient carries a tangent."""

    def run(*args):
        args = leaves(*args)
        y = f(*args)
        with forward_ad.dual_level():
            dy = forward_ad.make_dual(torch.ones_like(y), weights(y))
            grads = torch.autograd.grad(y, args, dy)
            return [forward_ad.unpack_dual(g).tangent for g in grads]

    return run


def batched_gradients(f):
    def run(*args):
        args = leaves(*args)
        y = f(*args)
        dy = torch.eye(y.numel(), dtype=y.dtype).reshape(-1, *y.shape)
        return torch.autograd.grad(y, args, dy, is_grads_batched=True)

    return run


def without_grad_mode(transform):
    def wrapped(f):
        def run(*args):
            with torch.no_grad():
                return transform(f)(*args)

        return run

    return wrapped


def both_ways(f):
    """A vector-Jacobian product of a Jacobian-vector product."""

    def run(*args):
        along = lambda *p: jvp(f, p, tuple(weights(t, 3) for t in p))[1]
        y, pull = vjp(along, *args)
        return y, *pull(weights(y))

    return run


TRANSFORMS = {
    "grad": lambda f: grad(loss(f), ALL),
    "grad of grad": lambda f: grad(lambda *p: grad(loss(f))(*p).square().sum(), ALL),
    "vjp": lambda f: lambda *p: vjp(f, *p)[1](weights(p[0])),
    "jvp": lambda f: lambda *p: jvp(f, p, tuple(map(weights, p))),
    "jvp of x": lambda f: lambda x, a, b: jvp(lambda v: f(v, a, b), (x,), (weights(x),)),
    "jvp of b": lambda f: lambda x, a, b: jvp(lambda v: f(x, a, v), (b,), (weights(b),)),
    "vjp of jvp": both_ways,
    "jvp of jvp": lambda f: lambda *p: jvp(lambda *t: jvp(f, t, p)[1], p, tuple(map(weights, p))),
    "jvp of grad of jvp": lambda f: (
        lambda x, a, b: jvp(grad(lambda v: jvp(loss(f), (v, a, b), (x, a, b))[1]), (x,), (x,))
    ),
    "jacrev": lambda f: jacrev(f, ALL),
    "jacfwd": lambda f: jacfwd(f, ALL),
    "hessian": lambda f: lambda *p: [t for row in hessian(loss(f), ALL)(*p) for t in row],
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(loss(f)), 1),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(loss(f)), 1),
    "vmap x": lambda f: lambda x, a, b: vmap(f, (0, None, None))(stack(x), a, b),
    "vmap x inner": lambda f: (
        lambda x, a, b: vmap(f, (-1, None, None), -1)(stack(x).movedim(0, -1), a, b)
    ),
    "vmap a, b": lambda f: lambda x, a, b: vmap(f, (None, 0, 0))(x, stack(a), stack(b)),
    "vmap a": lambda f: lambda x, a, b: vmap(f, (None, 0, None))(x, stack(a), b),
    "vmap all": lambda f: lambda *p: vmap(f)(*map(stack, p)),
    "vmap of grad": lambda f: lambda *p: vmap(grad(loss(f), ALL))(*map(stack, p)),
    "grad of vmap": lambda f: grad(
        lambda x, a, b: vmap(loss(f), (0, None, 0))(stack(x), a, stack(b)).sum(), ALL
    ),
    "vmap of jvp": lambda f: lambda *p: vmap(lambda *t: jvp(f, t, t))(*map(stack, p)),
    "jvp of vmap": lambda f: (
        lambda *p: jvp(vmap(f), tuple(map(stack, p)), tuple(weights(stack(t)) for t in p))
    ),
    "vmap of vmap": lambda f: (
        lambda x, a, b: vmap(vmap(f, (0, None, None)), (None, 0, 0))(stack(x), stack(a), stack(b))
    ),
    "jacobian": lambda f: lambda *p: jacobian(f, p, vectorize=True),
    "jacobian forward": lambda f: (
        lambda *p: jacobian(f, p, vectorize=True, strategy="forward-mode")
    ),
    "batched gradients": batched_gradients,
    "backward": nested(1),
    "double backward": nested(2),
    "triple backward": nested(3),
    "dual numbers": dual_numbers,
    "forward over reverse": forward_over_reverse,
    "dual through older graph": dual_through_older_graph,
    "no_grad grad": without_grad_mode(lambda f: grad(loss(f), ALL)),
    "no_grad jacrev": without_grad_mode(lambda f: jacrev(f, ALL)),
    "no_grad dual numbers": without_grad_mode(dual_numbers),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_derivative_has_the_value_of_the_formulas(transform, case):
    args = problem(case)
    actual = transform(lambda x, a, b: padenet.rational(x, a, b, **case.options))(*args)
    expected = transform(lambda x, a, b: formula(x, a, b, **case.options))(*args)
    assert_near(actual, expected)
    for t in args:
        assert not t.requires_grad and t.grad is None


@pytest.mark.parametrize("groups", [1, 2])
def test_batched_gradients_of_many_elements(groups):
    """Enough elements for the sums of the coefficients to be taken in stages."""
    args = [t.requires_grad_() for t in problem(Case(groups=groups), (600, 4))]
    dy = torch.stack([weights(args[0], seed) for seed in range(3)])
    actual = torch.autograd.grad(padenet.rational(*args), args, dy, is_grads_batched=True)
    expected = torch.autograd.grad(formula(*args), args, dy, is_grads_batched=True)
    assert_near(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["grad", "jvp", "vmap of grad", "hessian", "double backward"])
def test_narrow_dtypes(name, dtype):
    """float32 and bfloat16 inputs keep their dtype; the judge is the formula in float64."""
    case = Case(groups=2)
    args = [t.to(dtype) for t in problem(case)]
    actual = TRANSFORMS[name](lambda *p: padenet.rational(*p))(*args)
    expected = TRANSFORMS[name](lambda *p: formula(*p))(*(t.double() for t in args))
    assert all(t.dtype == dtype for t in actual)
    assert_near(actual, expected, 64)


def test_sign_of_zero_is_zero():
    """At A(x) = 0 the bars have slope 0, in every mode."""
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0])
    f = lambda x: padenet.rational(x, a, b)
    x = torch.zeros(2, 3)
    slope = torch.full_like(x, 2.0)
    torch.testing.assert_close(grad(lambda x: f(x).sum())(x), slope, rtol=0, atol=0)
    torch.testing.assert_close(jvp(f, (x,), (torch.ones_like(x),))[1], slope, rtol=0, atol=0)
    x.requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(f(x).sum(), x)[0], slope, rtol=0, atol=0)


@pytest.mark.parametrize("x", [1e30, -1e30, 3e38])
def test_derivatives_at_huge_x(x):
    """F -> a_5 / b_4 x (1 + o(1)): slope and its jvp are a_5 / |b_4| far out."""
    a = torch.tensor([0.1, 0.5, 1.0, 2.0, 1.0, 0.5])
    b = torch.tensor([0.0, 4.0, 0.0, 0.25])
    f = lambda x: padenet.rational(x, a, b)
    x = torch.tensor([x])
    slope = torch.tensor([2.0])
    torch.testing.assert_close(jvp(f, (x,), (torch.ones_like(x),))[1], slope)
    torch.testing.assert_close(grad(lambda x: f(x).sum())(x), slope)
    torch.testing.assert_close(vmap(grad(lambda x: f(x).sum()))(x[None])[0], slope)


def test_same_values_inside_and_outside_a_transform():
    x, a, b = problem(Case(), dtype=torch.float32)
    inside = vmap(lambda x: padenet.rational(x, a, b))(x)
    assert_near(inside, padenet.rational(x, a, b).double(), 16)


def test_ensembles_of_modules():
    """``functional_call`` over stacked parameters: one set of coefficients a member."""
    units = [padenet.PAU("tanh", groups=2), padenet.PAU("sigmoid", groups=2)]
    params, buffers = torch.func.stack_module_state(units)
    x = torch.randn(5, 4)
    call = lambda p, x: torch.func.functional_call(units[0], (p, buffers), (x,))
    y = vmap(call, (0, None))(params, x)
    assert_near(y, torch.stack([u(x) for u in units]).double().detach(), 16)


def test_vmap_of_noise_asks_for_randomness():
    unit = padenet.RPAU(alpha=0.5)
    x = torch.ones(4, 3)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(unit)(x)
    assert torch.equal(*vmap(unit, randomness="same")(x)[:2])
    different = vmap(unit, randomness="different")(x)
    assert len(set(different.flatten().tolist())) > 9
