"""``padenet.stabilize`` where models, optimisers and units are not the usual ones."""

import copy

import pytest
import torch
from stabilized import assert_held, assert_same, loss_of, make_net, sgd, train
from torch import nn
from torch.nn.utils import parametrize, prune

from padenet import PAU, RPAU, param_groups, stabilize

# Optimisers


@pytest.mark.parametrize("after", [False, True], ids=["calls", "calls, then changes"])
def test_a_subclass_whose_step_calls_that_of_its_base(after):
    """Torch runs the hooks for both, once it has seen the base: each step is one, to its end."""
    sgd(make_net())  # now SGD.step runs hooks too

    class Own(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            loss = super().step(closure)
            for p in (p for g in self.param_groups for p in g["params"] if after):
                p.mul_(3.0)
            return loss

    nets = make_net(), make_net()
    optimizers = sgd(nets[0], momentum=0.9), Own(param_groups(nets[1], lr=0.5), momentum=0.9)
    reports = [stabilize(*both) for both in zip(nets, optimizers, strict=True)]
    loss_of(nets[1]).backward()
    assert_held(nets[1][1], optimizers[1].step)
    loss_of(nets[0]).backward()
    optimizers[0].step()
    for both in zip(nets, optimizers, strict=True):
        train(*both)
    assert reports[1].report()[0].steps == 4
    assert reports[1].gradients()[0].steps == 4
    if not after:
        assert_same(*nets)
        assert reports[0].report() == reports[1].report()


def test_a_step_that_raised_does_not_count_as_one_around_the_next():
    net = make_net()
    optimizer = sgd(net)
    held = stabilize(net, optimizer)

    def closure():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:  # and its traceback, as notebooks do
        optimizer.step(closure)
    loss_of(net).backward()
    assert_held(net[1], optimizer.step)
    assert held.report()[0].steps == 1
    assert held.gradients()[0].steps == 1
    assert kept.traceback


def test_a_subclass_of_lbfgs_is_one():
    class Own(torch.optim.LBFGS):
        pass

    net = make_net()
    optimizer = Own(net.parameters(), line_search_fn="strong_wolfe")
    assert stabilize(net, optimizer).gradients() == ()


def test_a_step_with_an_argument_that_is_no_closure():
    class Own(torch.optim.SGD):
        def step(self, factor, closure=None):
            assert factor == 2.0
            return super().step(closure)

    net = make_net()
    optimizer = Own(param_groups(net, lr=0.5))
    stabilize(net, optimizer)
    loss_of(net).backward()
    assert_held(net[1], lambda: optimizer.step(2.0))


def test_an_optimizer_without_hooks_is_named():
    """As accelerate's is."""

    class Wrapped(torch.optim.Optimizer):
        def __init__(self, inside):
            self.param_groups = inside.param_groups

    net = make_net()
    with pytest.raises(TypeError, match=r"Wrapped runs no hooks.*Give the optimizer inside it"):
        stabilize(net, Wrapped(sgd(net)))


def test_an_optimizer_without_parameters_beside_another():
    net = make_net()
    optimizer = sgd(net)
    held = stabilize(net, [optimizer, torch.optim.SGD([{"params": []}], lr=0.1)])
    loss_of(net).backward()
    assert_held(net[1], optimizer.step)
    assert [h.steps for h in held.gradients()] == [1, 0]


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler
def test_a_compiled_step_does_the_same():
    """Compiled by inductor, the running size of gradients came out wrong: hooks are not traced."""
    nets = make_net(), make_net()
    for net, compiled in zip(nets, (False, True), strict=True):
        optimizer = sgd(net, momentum=0.9)
        held = stabilize(net, optimizer)
        step = torch.compile(optimizer.step, backend="aot_eager") if compiled else optimizer.step
        for _ in range(4):
            optimizer.zero_grad()
            loss_of(net).backward()
            step()
        assert held.gradients()[0].held == 0
        assert held.report()[0].steps == 4
    assert_same(*nets)


# Units that change


def test_a_thawed_unit_is_held():
    net = make_net()
    net[1].requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=5.0)
    held = stabilize(net, optimizer)
    before = copy.deepcopy(net[1])
    train(net, optimizer, 2)
    assert_same(net[1], before)
    net[1].requires_grad_(True)
    loss_of(net).backward()
    assert_held(net[1], optimizer.step)
    assert held.left == ()


def test_a_unit_that_the_optimizer_is_given_later_is_held():
    net = make_net()
    net[1].requires_grad_(False)
    optimizer = sgd(net, lr=5.0)
    held = stabilize(net, optimizer)
    assert held.left == ("1",)
    train(net, optimizer, 1)
    net[1].requires_grad_(True)
    net.append(RPAU())
    new = [*net[1].parameters(), *net[5].parameters()]
    optimizer.add_param_group({"params": new})
    loss_of(net).backward()
    assert_held(net[1], optimizer.step)
    assert held.left == ()
    assert [(h.name, h.steps) for h in held.report()] == [("1", 1), ("3", 2), ("5", 1)]


def test_frozen_coefficients_past_the_edge_are_left_alone():
    net = nn.Sequential(PAU("lrelu", aim="near"))
    with torch.no_grad():
        net[0].b[-1] = -0.004
    net[0].b.requires_grad_(False)
    before = net[0].b.clone()
    optimizer = sgd(net)
    stabilize(net, optimizer)
    net(torch.ones(3)).sum().backward()
    optimizer.step()
    assert torch.equal(net[0].b, before)


def test_two_units_that_swap_their_dtypes():
    """The banks are by dtype; 1e-12 is lost in float32."""
    net = nn.Sequential(PAU(), PAU(dtype=torch.float64))
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    stabilize(net, optimizer)
    net[0].double()
    net[1].float()
    before = net[0].a[0].item()
    net[0].a.grad = torch.zeros_like(net[0].a)
    net[0].a.grad[0] = 1e-12
    optimizer.step()
    assert net[0].a[0].item() == before - 1e-12


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_net_that_is_halved_goes_on(dtype):
    net = make_net()
    optimizer = sgd(net, lr=0.01)
    held = stabilize(net, optimizer)
    train(net, optimizer, 2)
    net.to(dtype)
    train(net, optimizer, 2)
    assert held.report()[0].steps == 4
    assert held.gradients()[0].steps == 4


def test_units_that_share_their_coefficients():
    net = make_net()
    net.append(PAU("gelu"))
    net[5].a, net[5].b = net[1].a, net[1].b
    optimizer = sgd(net)
    stabilize(net, optimizer)
    loss_of(net).backward()
    assert_held(net[1], optimizer.step)
    net[5].b = nn.Parameter(net[1].b.detach().clone())
    with pytest.raises(ValueError, match=r"units '1' and '5' share a or b and differ in the rest"):
        stabilize(net, optimizer)


@pytest.mark.no_poison  # torch.device("meta") looks for torch.empty itself
def test_units_of_which_the_optimizer_does_not_hold_the_coefficients():
    class Twice(nn.Module):
        def forward(self, w):
            return 2 * w

    net, cut, other = make_net(), make_net(), make_net()
    parametrize.register_parametrization(net[1], "a", Twice())
    prune.l1_unstructured(cut[1], "b", 1)
    other[1].a = nn.Parameter(torch.zeros(0))  # FSDP of the first version keeps pieces
    for model in (net, cut, other):
        with pytest.raises(ValueError, match=r"unit '1' are not Parameters of their full shape"):
            stabilize(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with torch.device("meta"):
        empty = make_net()
    with pytest.raises(ValueError, match=r"unit '1' are on the device 'meta'"):
        stabilize(empty, sgd(empty))


@pytest.mark.parametrize("options", [
    {"degrees": (2, 0)}, {"degrees": (0, 0)}, {"form": "free"}, {"form": "offset"},
    {"form": "abs_terms"},
], ids=str)  # fmt: skip
def test_with_every_kind_of_unit(options):
    net = make_net(**options)
    optimizer = sgd(net, lr=5.0)
    stabilize(net, optimizer)
    loss_of(net).backward()
    assert_held(net[1], optimizer.step)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
def test_units_survive_gradients_that_nothing_else_does(bad):
    net = make_net()
    optimizer = sgd(net)
    stabilize(net, optimizer)
    train(net, optimizer, 1)
    for p in net.parameters():
        p.grad.fill_(bad)
    optimizer.step()
    assert all(p.isfinite().all() for i in (1, 3) for p in net[i].parameters())
