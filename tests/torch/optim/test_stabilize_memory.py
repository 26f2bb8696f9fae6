"""``padenet.stabilize`` where the memory under its tensors is not what it was a step ago."""

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from padenet import PAU, param_groups, stabilize

RATE = 5.0  # so high that a step of a unit is shortened


def make(optimizer=torch.optim.SGD, groups=6):
    """Six groups of six coefficients: a square table."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 6), PAU(groups=groups), nn.Linear(6, 1))
    optimizer = optimizer(param_groups(net, lr=RATE))
    return net, optimizer, stabilize(net, optimizer)


def give(net):
    for p in net.parameters():
        p.grad = torch.ones_like(p)


def after_steps(change, steps=2):
    """A unit's coefficients when ``change(net)`` was called before each step, and the counts."""
    net, optimizer, held = make()
    for _ in range(steps):
        change(net)
        give(net)
        optimizer.step()
    unit = net[1]
    return [unit.a.detach().clone(), unit.b.detach().clone()], held.report()


def put_elsewhere(net):
    for p in net[1].parameters():
        p.data = p.data.clone()


def put_in_a_column(net):
    for p in net[1].parameters():
        p.data = torch.stack([p.data, torch.zeros_like(p)], -1)[..., 0]


def put_where_nothing_is_aligned(net):
    for p in net[1].parameters():
        room = torch.frombuffer(bytearray(p.nbytes + 1), dtype=p.dtype, offset=1, count=p.numel())
        p.data = room.view_as(p).copy_(p.data)


def wrap(net):
    for p in list(net[1].parameters()):
        if type(p) is nn.Parameter:
            pair = TwoTensor(p.data.clone(), p.data.clone())
            torch.utils.swap_tensors(p, nn.Parameter(pair))


MOVES = [put_elsewhere, put_in_a_column, put_where_nothing_is_aligned, nn.Module.share_memory]


@pytest.mark.filterwarnings("ignore:The given buffer")
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_parameters_that_move_are_held_as_before(move):
    """To the last bits of float32: another path may round otherwise."""
    expected, counts = after_steps(lambda net: None)
    got, found = after_steps(move)
    assert found == counts
    assert counts[0].held == 2
    for value, other in zip(got, expected, strict=True):
        torch.testing.assert_close(value, other, rtol=2**-22, atol=0)


def test_another_view_of_the_same_memory():
    """A square table, transposed: its address and size are the same."""
    net, optimizer, _ = make()
    give(net)
    optimizer.step()
    other, twin, _ = make()
    other.load_state_dict(net.state_dict())
    net[1].a.data = net[1].a.data.t()
    other[1].a.data = other[1].a.data.t().contiguous()
    for one, o in ((net, optimizer), (other, twin)):
        give(one)
        one[1].a.grad[0, 1] = 9.0
        o.step()
    torch.testing.assert_close(net[1].a, other[1].a, rtol=2**-22, atol=0)


def test_parameters_whose_dtype_changes_in_a_step():
    """The kernel of float32 would write behind the end of bfloat16."""

    class Short(torch.optim.SGD):
        def step(self, closure=None):
            for p in (p for g in self.param_groups for p in g["params"]):
                p.data = (p.data - 1).bfloat16()

    net, optimizer, held = make(Short)
    before = net[1].a.detach().clone()
    give(net)
    optimizer.step()
    assert net[1].a.dtype == torch.bfloat16
    assert held.report()[0].held == 1
    assert (net[1].a[:, 0] - before[:, 0]).abs().max() < 0.02  # not 1: a_0 moves F as itself


def test_parameters_that_are_emptied_are_named():
    """As some libraries do which keep parts of a net elsewhere."""
    net, optimizer, _ = make()
    net[1].a.data = torch.zeros(0)
    with pytest.raises(ValueError, match=r"unit '1' are not Parameters of their full shape"):
        optimizer.step()


def test_units_that_share_memory_in_two_parameters_are_held_once():
    """Both rows see one step, and write the same."""
    torch.manual_seed(0)
    net, one = nn.Sequential(PAU(), PAU()), nn.Sequential(PAU())
    net[1].a.data, net[1].b.data = net[0].a.data, net[0].b.data
    optimizers = [torch.optim.SGD(n.parameters(), lr=RATE) for n in (net, one)]
    for n, optimizer, size in zip((net, one), optimizers, (1.0, 2.0), strict=True):
        stabilize(n, optimizer, spike=None)
        for p in n.parameters():
            p.grad = torch.full_like(p, size)
        optimizer.step()
    torch.testing.assert_close(net[0].a, one[0].a, rtol=2**-22, atol=0)


def test_parameters_of_another_class():
    """Whose own memory is empty."""
    net, optimizer, held = make(lambda groups: torch.optim.SGD(groups, foreach=False))
    wrap(net)
    for p in net[1].parameters():
        p.grad = torch.ones_like(p)
    before = net[1].a.a.clone()
    optimizer.step()
    assert 0 < (net[1].a.a - before)[:, 0].abs().max() < 0.02
    assert held.report()[0].held == 1


def test_counts_that_go_into_shared_memory_are_those_in_use():
    """As those of a state which goes through a queue of torch.multiprocessing."""
    net, optimizer, held = make()
    state = held.state_dict()["optimizers"][0]
    for tensor in (state["units"]["1"], *state["gradients"].values()):
        place = tensor.data_ptr()
        tensor.share_memory_()
        assert tensor.data_ptr() != place
    give(net)
    optimizer.step()
    assert (held.report()[0].steps, held.gradients()[0].steps) == (1, 1)
    assert state["units"]["1"][0].tolist() == [1] * 6
