"""``padenet.stabilize`` with the optimisers, wrappers and loops that people have."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import padenet
from padenet import PAU, RPAU, param_groups, stabilize
from padenet.torch import trust


def make_net(start="gelu"):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), PAU(start), nn.Linear(16, 16), RPAU(groups=4), nn.Linear(16, 1)
    )


def make_batch():
    draw = torch.Generator().manual_seed(1)
    return torch.randn(32, 8, generator=draw), torch.randn(32, 1, generator=draw)


def loss_of(net):
    x, target = make_batch()
    return nn.functional.mse_loss(net(x), target)


def train(net, optimizer, steps=5):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net).backward()
        optimizer.step()


X = torch.cat([torch.linspace(-10, 10, trust.INSIDE), torch.tensor(trust.FAR)])


def moved(unit, before):
    return ((unit(X) - before).abs() * (3 / X.abs()).clamp(max=1)).max()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, nesterov=True),
    "foreach": lambda p: torch.optim.SGD(p, lr=0.5, foreach=True),
    "fused": lambda p: torch.optim.SGD(p, lr=0.5, fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_with_every_optimizer(name):
    """Rates at which a unit would leave the map in a step."""
    net = make_net()
    optimizer = OPTIMIZERS[name](param_groups(net, lr=0.1))
    for group in optimizer.param_groups:
        group["lr"] = 1.0
    held = stabilize(net, optimizer)
    for _ in range(5):
        with torch.no_grad():
            before = net[1](X)
        train(net, optimizer, 1)
        assert 0 < moved(net[1], before) <= trust.MOST * 1.001 + 1e-5
    assert sum(h.held for h in held.report()) > 0


def test_with_lbfgs_and_its_closure():
    net = make_net()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=1.0, line_search_fn="strong_wolfe")
    held = stabilize(net, optimizer)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(net)
        loss.backward()
        return loss

    net.eval()  # no noise, which a line search cannot follow
    first = closure().item()
    for _ in range(12):
        with torch.no_grad():
            before = net[1](X)
        optimizer.step(closure)  # twenty iterations, and weights that go with them
        assert moved(net[1], before) <= 1000 * trust.MOST * 1.001
    assert closure().item() < 0.1 * first
    assert held.report()[0].steps == 12


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch without Muon")
def test_with_two_optimizers():
    net = make_net()
    matrices, *rest = param_groups(net, lr=0.1, matrices=True)
    muon, adamw = torch.optim.Muon(matrices["params"]), torch.optim.AdamW(rest)
    held = stabilize(net, [muon, adamw])
    with torch.no_grad():
        before = net[1](X)
    loss_of(net).backward()
    muon.step()
    adamw.step()
    assert moved(net[1], before) <= trust.MOST * 1.001
    assert [h.steps for h in held.report()] == [1, 1]
    held.remove()
    with pytest.raises(ValueError, match=r"unit '3' are in Muon, which is for matrices"):
        stabilize(net, torch.optim.Muon([net[3].a, net[3].b]))


def test_with_schedulers_and_load_state_dict():
    net = make_net()
    optimizer = torch.optim.SGD(param_groups(net, lr=0.1), momentum=0.9)
    held = stabilize(net, optimizer)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=20)
    for _ in range(5):
        train(net, optimizer, 1)
        scheduler.step()
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    train(net, optimizer, 1)
    assert held.report()[0].steps == 6


def test_coefficients_loaded_between_steps_stay():
    net, other = make_net(), make_net("tanh")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    stabilize(net, optimizer)
    train(net, optimizer, 1)
    net.load_state_dict(other.state_dict())
    train(net, optimizer, 1)
    torch.testing.assert_close(net[1].a, other[1].a, rtol=0, atol=1e-4)


def test_gradient_scaler_and_accumulation():
    net = make_net()
    optimizer = torch.optim.SGD(param_groups(net, lr=0.1))
    held = stabilize(net, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    before = net[1].a.detach().clone()
    for _ in range(2):  # two batches a step
        scaler.scale(loss_of(net)).backward()
    net[0].weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(net[1].a, before)  # skipped, and nothing was held
    assert held.report()[0].steps == 0
    optimizer.zero_grad()
    loss_of(net).backward()
    optimizer.step()
    assert held.report()[0].steps == 1


def test_twice_is_once():
    net, same = make_net(), make_net()
    for n, times in ((net, 1), (same, 3)):
        optimizer = torch.optim.SGD(param_groups(n, lr=0.5), momentum=0.9)
        torch.manual_seed(2)
        for _ in range(times):
            held = stabilize(n, optimizer)
        train(n, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), same.parameters(), strict=True))
    assert held.report()[0].steps == 5


def test_copies_lose_it_and_keep_the_rest():
    """As docs/stability.md says: the hooks belong to the optimiser that was given."""
    net = make_net()
    optimizer = torch.optim.SGD(param_groups(net, lr=0.5))
    held = stabilize(net, optimizer)
    both = copy.deepcopy((net, optimizer))
    loads = pickle.loads(pickle.dumps(both))
    for model, other in (both, loads):
        train(model, other, 1)
    assert held.report()[0].steps == 0
    train(net, optimizer, 1)
    assert held.report()[0].steps == 1


def test_a_model_that_moves_and_changes_its_dtype():
    net = make_net()
    optimizer = torch.optim.SGD(param_groups(net, lr=0.5))
    held = stabilize(net, optimizer)
    net.double()
    optimizer.param_groups[0]["params"] = list(net.parameters())
    optimizer.param_groups[1]["params"] = []
    x, y = (t.double() for t in make_batch())
    with torch.no_grad():
        before = net[1](X.double())
    (net(x) - y).square().sum().backward()
    optimizer.step()
    assert ((net[1](X.double()) - before).abs() * (3 / X.abs()).clamp(max=1)).max() <= trust.MOST
    assert held.report()[0].steps == 1


def test_what_it_says():
    net = make_net()
    optimizer = torch.optim.SGD(param_groups(net, lr=2.0))
    held = stabilize(net, optimizer)
    assert str(held).splitlines()[0] == "1: 0 of 0 steps shortened (0.0 %)"
    train(net, optimizer, 4)
    first, second = held.report()
    assert (first.name, first.steps, second.name) == ("1", 4, "3")
    assert 1 <= first.held <= 4
    assert first.since >= 1
    assert f"{first.held} of 4 steps shortened" in str(held)
    assert f"the first time in step {first.since}" in str(held)
    held.remove()
    train(net, optimizer, 1)
    assert held.report()[0].steps == 4


def test_a_frozen_unit_is_named():
    net = make_net()
    net[1].requires_grad_(False)
    optimizer = torch.optim.SGD(param_groups(net, lr=0.1))
    held = stabilize(net, optimizer)
    assert held.left == ("1",)
    assert "1: not trained by this optimizer" in str(held)
    assert [h.name for h in held.report()] == ["3"]


def test_bad_input():
    net, plain = make_net(), nn.Linear(2, 2)
    sgd = lambda p: torch.optim.SGD(p, lr=0.1)
    with pytest.raises(ValueError, match=r"no unit to stabilize\. Call padenet.convert first"):
        stabilize(plain, sgd(plain.parameters()))
    with pytest.raises(ValueError, match=r"no coefficient of the 2 units of model, such as '1'"):
        stabilize(net, sgd(net[0].parameters()))
    with pytest.raises(ValueError, match=r"unit '1' are in two optimizers"):
        stabilize(net, [sgd(net.parameters()), sgd(net[1].parameters())])
    with pytest.raises(ValueError, match=r"unit '1' are in two optimizers"):
        stabilize(net, [sgd([net[1].a]), sgd([net[1].b])])
    with pytest.raises(TypeError, match=r"is not a torch\.optim\.Optimizer"):
        stabilize(net, net)
    with pytest.raises(TypeError, match=r"takes a model first, a torch\.nn\.Module, not SGD\.$"):
        stabilize(sgd(net.parameters()), net)
    with pytest.raises(ValueError, match=r"most=0 must be a finite number above 0"):
        stabilize(net, sgd(net.parameters()), most=0)
    for p in net.parameters():
        p.requires_grad_(False)
    with pytest.raises(ValueError, match="they do not require gradients"):
        stabilize(net, sgd(net.parameters()))


def test_two_calls_for_two_optimizers_of_the_same_units_are_refused():
    net = make_net()
    first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for _ in range(2))
    held = stabilize(net, first)
    with pytest.raises(ValueError, match="in two optimizers"):
        stabilize(net, second)
    held.remove()
    stabilize(net, second)


def test_decaying_coefficients_are_named():
    net = make_net()
    with pytest.warns(UserWarning, match=r"coefficients of 2 units, such as '1', decay"):
        stabilize(net, torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1))


@pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch:RuntimeWarning")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_in_a_cuda_graph():
    """Replays hold each step and count it, without waiting for the device."""
    nets = [make_net("tanh").cuda() for _ in range(2)]
    x, y = (t.cuda() for t in make_batch())
    reports = []
    for net, graphed in zip(nets, (False, True), strict=True):
        net[3].eval()  # no noise: the key differs between a graph and a loop
        optimizer = torch.optim.SGD(param_groups(net, lr=0.3), momentum=0.9, fused=True)
        held = stabilize(net, optimizer)

        def step(net=net, optimizer=optimizer):
            optimizer.zero_grad(set_to_none=False)
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()

        if graphed:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                step()
            step = graph.replay
            for _ in range(7):
                step()
        else:
            for _ in range(10):
                step()
        torch.cuda.synchronize()
        reports.append(held.report())
    assert reports[0] == reports[1]
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_convert_and_train_at_the_rate_one_had():
    """GELU trains at this rate; its unit was lost without the stabiliser."""
    torch.manual_seed(0)
    x = torch.randn(512, 8)
    y = (x[:, :2].prod(1) > 0).long()
    net = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 2))
    model, _ = padenet.convert(net)
    losses = []
    for n in (net, model):
        optimizer = torch.optim.SGD(param_groups(n, lr=0.2), momentum=0.9)
        if n is model:
            stabilize(n, optimizer)
        for _ in range(60):
            for part in torch.arange(512).split(64):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(n(x[part]), y[part])
                loss.backward()
                optimizer.step()
        losses.append(loss.item())
    assert losses[1] < max(0.1, 2 * losses[0])
