"""Gradients far out of line are shortened: the formula of ``optim.spikes`` in float64."""

import copy
import math

import pytest
import torch
from torch import nn

from padenet import PAU, param_groups, stabilize
from padenet.torch.optim.spikes import DECAY, SPIKE, Spikes


def make(optimizer=torch.optim.SGD, dtype=torch.float64, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), PAU(), nn.Linear(5, 1)).to(dtype)
    optimizer = optimizer(net.parameters(), lr=1e-9)
    return net, optimizer, stabilize(net, optimizer, **options)


def norm(net):
    return math.sqrt(sum(p.grad.double().square().sum().item() for p in net.parameters()))


def give(net, size, seed=0):
    """Gradients of that total norm."""
    draw = torch.Generator().manual_seed(seed)
    for p in net.parameters():
        p.grad = torch.randn(p.shape, generator=draw).to(p)
    by = size / norm(net)
    for p in net.parameters():
        p.grad *= by


def follow(sizes):
    """What the docstring says, with the numbers of Python: the norms after, and s² at the end."""
    square, after = 0.0, []
    for t, size in enumerate(sizes, 1):
        size = min(size, SPIKE * math.sqrt(square)) if t > 1 else size
        d = min(DECAY, 1 - 1 / t)
        square = d * square + (1 - d) * size * size
        after.append(size)
    return after, square


def state_of(held):
    return held.state_dict()["optimizers"][0]["gradients"]


def test_a_spike_is_shortened_to_three_times_the_usual():
    """All of it in float64."""
    net, optimizer, held = make()
    sizes = [1.0, 2.0, 0.5, 1.5, 1.0, 100.0, 1.0, 4.0]
    expected, square = follow(sizes)
    for i, (size, after) in enumerate(zip(sizes, expected, strict=True)):
        give(net, size, seed=i)
        direction = net[0].weight.grad / size
        optimizer.step()
        assert norm(net) == pytest.approx(after, rel=1e-13)
        torch.testing.assert_close(net[0].weight.grad / after, direction, rtol=1e-13, atol=0)
    assert expected[5] == pytest.approx(3 * math.sqrt(follow(sizes[:5])[1]))  # from 100
    assert state_of(held)["square"].item() == pytest.approx(square, rel=1e-13)
    assert held.gradients()[0].held == 1
    assert held.gradients()[0].since == 6
    assert held.gradients()[0].steps == len(sizes)


def test_a_lasting_change_is_followed():
    """s² grows by 1.08 a step (0.99 + 0.01 · 9): from 1 to 10 / 3 in 32 steps."""
    net, optimizer, held = make()
    for size in [1.0] * 100 + [10.0] * 40:
        give(net, size)
        optimizer.step()
    assert norm(net) == pytest.approx(10)  # the last was left alone
    assert held.gradients()[0].held == math.ceil(math.log(100 / 9) / math.log(1.08)) == 32


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_zeros_and_what_is_not_finite_leave_the_size_alone(bad):
    net, optimizer, held = make()
    for _ in range(3):
        give(net, 1.0)
        optimizer.step()
    before = copy.deepcopy(state_of(held))
    for p in net.parameters():
        p.grad.fill_(0.0)
    net[0].weight.grad[0, 0] = bad
    for _ in range(50):
        optimizer.step()
    torch.testing.assert_close(net[0].weight.grad[0, 0].item(), bad, equal_nan=True)
    after = state_of(held)
    assert torch.equal(after["square"], before["square"])
    seen, steps, cut, since = (after["counts"] - before["counts"]).tolist()
    assert (seen, steps, cut, since) == (0, 50, 0, 0)
    give(net, 100.0)
    optimizer.step()
    assert norm(net) == pytest.approx(3, rel=2**-23)  # a spike is still seen


def test_sparse_gradients_count_and_are_shortened():
    """Those of an embedding, the same row twice: as its dense gradient."""
    norms = []
    for sparse in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Embedding(9, 4, sparse=sparse), PAU(), nn.Linear(4, 1)).double()
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
        held = stabilize(net, optimizer)
        for factor in (1, 1, 100):
            optimizer.zero_grad()
            (factor * net(torch.tensor([1, 2, 2])).sum()).backward()
            optimizer.step()
        assert held.gradients()[0].held == 1
        norms.append([p.grad.to_dense().norm().item() for p in net.parameters()])
    assert norms[0] == pytest.approx(norms[1], rel=2**-23)


def test_an_optimizer_of_sparse_gradients_alone():
    net = nn.Sequential(nn.Embedding(9, 4, sparse=True), PAU(), nn.Linear(4, 1))
    sparse = torch.optim.SparseAdam(net[0].parameters())
    held = stabilize(net, [sparse, torch.optim.Adam(net[1:].parameters())])
    net(torch.tensor([1, 2, 2])).sum().backward()
    sparse.step()
    assert [h.steps for h in held.gradients()] == [1, 0]


@pytest.mark.parametrize("call", ["step(c)", "step(closure=c)"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_with_a_closure_it_is_the_same(kind, call):
    nets, reports = [], []
    for how in ("step()", call):
        net, optimizer, held = make(kind, torch.float32)
        for factor in (1, 1, 100, 1):

            def closure(net=net, optimizer=optimizer, factor=factor):
                optimizer.zero_grad()
                loss = factor * net(torch.ones(2, 3)).sum()
                loss.backward()
                return loss

            if how == "step()":
                closure()
                optimizer.step()
            elif how == "step(c)":
                optimizer.step(closure)
            else:
                optimizer.step(closure=closure)
        nets.append(net)
        reports.append((held.report(), held.gradients()))
    assert reports[0] == reports[1]
    assert reports[0][1][0].held == 1
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, other)


def test_a_state_is_resumed_bit_for_bit(tmp_path):
    net, optimizer, held = make()
    for i in range(5):
        give(net, 1.0, seed=i)
        optimizer.step()
    torch.save(held.state_dict(), tmp_path / "held.pt")
    _, other, resumed = make()
    twin = other.param_groups[0]["params"]
    resumed.load_state_dict(torch.load(tmp_path / "held.pt", weights_only=True))
    for size in (100.0, 1.0, 50.0):
        give(net, size)
        for p, q in zip(twin, net.parameters(), strict=True):
            p.grad = q.grad.clone()
        optimizer.step()
        other.step()
        assert all(torch.equal(p.grad, q.grad) for p, q in zip(twin, net.parameters(), strict=True))
    assert held.gradients() == resumed.gradients()
    assert held.gradients()[0].held == 2


@pytest.mark.parametrize("fused", [True, False])
def test_the_scale_of_a_gradient_scaler_does_not_count(fused):
    """A fused optimiser gets scaled gradients and divides. The scales are powers of two."""
    sizes = []
    for enabled in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 5), PAU(), nn.Linear(5, 1))
        optimizer = torch.optim.SGD(param_groups(net, lr=0.1), fused=fused)
        held = stabilize(net, optimizer)
        scaler = torch.amp.GradScaler(
            "cpu", init_scale=8.0, growth_factor=32.0, growth_interval=1, enabled=enabled
        )
        for factor in (1, 1, 1, 100):
            optimizer.zero_grad()
            scaler.scale(factor * net(torch.ones(4, 3)).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert held.gradients()[0].held == 1
        sizes.append(state_of(held)["square"].item())
    assert sizes[0] == pytest.approx(sizes[1], rel=2**-20)


def test_float16_gradients_whose_norm_float16_does_not_hold():
    net, optimizer, held = make(dtype=torch.float16)
    for size in (3e4, 3e4, 2e5):  # a norm of 2e5, of numbers up to 4e4; float16 ends at 65504
        for p in net.parameters():
            p.grad = torch.full_like(p, size / math.sqrt(sum(q.numel() for q in net.parameters())))
        optimizer.step()
    assert held.gradients()[0].held == 1
    assert norm(net) == pytest.approx(9e4, rel=2**-9)


def test_gradients_of_several_dtypes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.unit = PAU()
            kinds = torch.bfloat16, torch.float64, torch.complex64
            self.others = nn.ParameterList(torch.ones(4, dtype=kind) for kind in kinds)
            self.empty = nn.Parameter(torch.zeros(0, 3))

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
    held = stabilize(net, optimizer)
    for size in (1, 1, 100):
        for p in net.parameters():
            p.grad = torch.full_like(p, size)
        optimizer.step()
    assert held.gradients()[0].held == 1
    for p in net.parameters():
        size = p.grad.abs().double()
        torch.testing.assert_close(size, torch.full_like(size, 3.0), rtol=2**-7, atol=0)


@pytest.mark.parametrize("sizes", [(1, 1, 100), (1, 1, 1e25)])
def test_gradients_of_64_bits_are_the_same_with_and_without_a_kernel(sizes):
    """float32 holds no norm above 1e19, and those of float64 are treated alike."""
    spikes, plain = (Spikes(SPIKE, torch.device("cpu")) for _ in range(2))
    for size in sizes:
        p = nn.Parameter(torch.ones(5, dtype=torch.float64))
        p.grad = torch.full_like(p, size)
        same = p.grad.clone()
        spikes.shorten([p])
        plain._shorten([same], None)
        torch.testing.assert_close(p.grad, same, rtol=1e-14, atol=0)
    assert torch.equal(spikes.counts, plain.counts)
    assert spikes.cut == (size == 100)


def test_expanded_gradients_are_shortened():
    """One number in memory, seen many times: it is not multiplied in place."""
    net, optimizer, held = make()
    for size in (1.0, 1.0, 100.0):
        for p in net.parameters():
            p.grad = torch.tensor(size, dtype=p.dtype).expand(p.shape)
        optimizer.step()
    for p in net.parameters():
        torch.testing.assert_close(p.grad, torch.full_like(p, 3.0), rtol=1e-13, atol=0)
    assert held.gradients()[0].held == 1


def test_autograd_knows_that_gradients_were_written_over():
    net, optimizer, _ = make()
    for size in (1.0, 1.0, 100.0):
        give(net, size)
        g = net[0].weight.grad.requires_grad_()
        squared = (g * g).sum()
        optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.backward()


def test_none_is_no_limit():
    net, optimizer, held = make(spike=None)
    for size in (1.0, 1.0, 100.0):
        give(net, size)
        optimizer.step()
    assert norm(net) == pytest.approx(100)
    assert held.gradients() == ()
    assert "gradients" not in str(held)


@pytest.mark.parametrize("bad", [1, 0.5, -3, float("inf"), float("nan")])
def test_a_bad_limit_is_named(bad):
    with pytest.raises(ValueError, match=f"spike={bad} must be a finite number above 1, or None"):
        make(spike=bad)
