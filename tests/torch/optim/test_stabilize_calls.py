"""``padenet.stabilize`` called again, its state, its copies, and what is wrong with a call."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from stabilized import POINTS, assert_same, loss_of, make_net, sgd, train

from padenet import param_groups, stabilize


def test_a_second_call_goes_on_where_the_first_stood():
    nets, reports = (make_net(), make_net()), []
    for net, again in zip(nets, (False, True), strict=True):
        optimizer = sgd(net, momentum=0.9)
        held = stabilize(net, optimizer)
        for _ in range(4):
            train(net, optimizer)
            if again:
                held = stabilize(net, optimizer)
        reports.append((held.report(), held.gradients()))
    assert reports[0] == reports[1]
    assert_same(*nets)


def test_a_call_for_a_part_leaves_the_rest_held():
    net = make_net()
    optimizer = sgd(net, lr=5.0)
    whole = stabilize(net, optimizer)
    train(net, optimizer, 1)
    for _ in range(2):
        part = stabilize(net[1], optimizer, most=0.001)
        assert [h.name for h in whole.report()] == ["3"]
    loss_of(net).backward()
    with torch.no_grad():
        before = net[3].b.clone(), net[1](POINTS)
        optimizer.step()
        assert (net[3].b - before[0]).abs().max() < 0.1  # without: 0.7
        move = (net[1](POINTS) - before[1]).abs() * (3 / POINTS.abs()).clamp(max=1)
    assert move.max() <= 0.001 * 1.001 + 1e-5
    assert [(h.name, h.steps) for h in whole.report()] == [("3", 2)]
    assert [(h.name, h.steps) for h in part.report()] == [("model", 2)]
    assert (whole.gradients(), part.gradients()[0].steps) == ((), 2)  # shortened once


def test_other_options_after_remove():
    net = make_net()
    optimizer = sgd(net, lr=5.0)
    held = stabilize(net, optimizer)
    train(net, optimizer, 2)
    held.remove()
    held.remove()
    other = stabilize(net, optimizer, most=0.1, spike=None)
    train(net, optimizer, 1)
    assert (held.report()[0].steps, other.report()[0].steps) == (2, 1)
    assert other.gradients() == ()


def test_the_same_optimizer_twice_in_a_list_is_one():
    net = make_net()
    optimizer = sgd(net)
    held = stabilize(net, iter([optimizer, optimizer]))
    train(net, optimizer, 1)
    assert [h.steps for h in (*held.report(), *held.gradients())] == [1, 1, 1]


# Copies, states, ends


def test_a_stabilizer_is_not_copied():
    net = make_net()
    held = stabilize(net, sgd(net))
    for copied in (copy.deepcopy, copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match=r"cannot be copied or pickled.*state_dict"):
            copied(held)


def test_training_is_resumed_bit_for_bit(tmp_path):
    def start():
        net = make_net()
        optimizer = torch.optim.Adam(param_groups(net, lr=0.5))
        return net, optimizer, stabilize(net, optimizer)

    first = start()
    train(*first[:2], 6)
    torch.save([part.state_dict() for part in first], tmp_path / "state.pt")
    train(*first[:2], 6)
    second = start()
    for part, state in zip(second, torch.load(tmp_path / "state.pt"), strict=True):
        part.load_state_dict(state)
    train(*second[:2], 6)
    assert str(first[2]) == str(second[2])
    assert_same(first[0], second[0])


@pytest.mark.parametrize("name", ["None", "5", "a string", "optimizer", "net", "list"])
def test_a_state_of_something_else_is_named(name):
    net = make_net()
    optimizer = sgd(net)
    held = stabilize(net, optimizer)
    states = {
        "None": None, "5": 5, "a string": "state", "optimizer": optimizer.state_dict(),
        "net": net.state_dict(), "list": [],
    }  # fmt: skip
    with pytest.raises(ValueError, match="the state is of another stabilize"):
        held.load_state_dict(states[name])


def test_nothing_is_kept_alive():
    net = make_net()
    optimizer = sgd(net)
    held = stabilize(net, optimizer)
    train(net, optimizer)
    alive = [weakref.ref(thing) for thing in (optimizer, net, net[1])]
    gc.disable()
    try:
        del optimizer
        assert alive[0]() is None
        assert str(held).splitlines()[-1].startswith("gradients of SGD: ")
        del net, held
        assert [ref() for ref in alive] == [None] * 3
    finally:
        gc.enable()


def test_bad_arguments_are_named():
    net = make_net()
    with pytest.raises(TypeError, match=r"optimizer=None is not a torch\.optim\.Optimizer"):
        stabilize(net, None)
    with pytest.raises(TypeError, match=r"takes a model first, a torch\.nn\.Module, not SGD"):
        stabilize(sgd(net), net)
