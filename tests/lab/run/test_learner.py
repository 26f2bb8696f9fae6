"""Steps of training against the same steps written out in plain torch."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from padenet.lab.data import load, normalise
from padenet.lab.records.config import Config
from padenet.lab.run.learning.learner import Learner
from padenet.lab.run.learning.model import build_net
from padenet.lab.run.learning.optimizer import make_optimizers
from padenet.torch.baselines import penalty
from padenet.torch.registry import find_activations

CPU = torch.device("cpu")
DATA = load("digits")


def plain_epoch(config, clip=lambda net: None):
    """One epoch by hand: the weights that a learner must reach."""
    from padenet.lab.data import epoch_order

    net = build_net(config, DATA)
    if config.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), config.lr)
    else:
        optimizer = torch.optim.SGD(net.parameters(), config.lr, config.momentum)
    order = epoch_order(len(DATA.train_images), seed=config.seed, epoch=1)
    for batch in order.split(config.batch_size)[: len(order) // config.batch_size]:
        x = normalise(DATA.train_images[batch], DATA.mean, DATA.std)
        loss = F.cross_entropy(net(x), DATA.train_labels[batch]) + penalty(net)
        optimizer.zero_grad()
        loss.backward()
        clip(net)
        optimizer.step()
    return net.state_dict()


@pytest.mark.parametrize("activation", ["relu", "apl", "pau"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_an_epoch_is_the_plain_loop(activation, optimizer):
    config = Config(activation=activation, optimizer=optimizer, batch_size=256, momentum=0.5)
    learner = Learner(config, DATA, CPU)
    assert sum(1 for _ in learner.train(1)) == len(DATA.train_images) // 256
    for name, value in plain_epoch(config).items():
        torch.testing.assert_close(learner.net.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_clipping_bounds_weights_and_each_unit():
    config = Config(optimizer="sgd", lr=1.0, batch_size=1024, clip_norm=0.01, coefficient_clip=1e-4)
    learner = Learner(config, DATA, CPU)
    before = {k: v.clone() for k, v in learner.net.state_dict().items()}
    assert sum(1 for _ in learner.train(1)) == 1
    moved = {k: v - before[k] for k, v in learner.net.state_dict().items()}
    units = learner.units
    assert len(units) == 4
    for name in units:
        step = torch.cat([moved.pop(f"{name}.a"), moved.pop(f"{name}.b")]).norm()
        assert step == pytest.approx(1e-4, rel=0.01)  # of float32 coefficients near 1
    assert torch.cat([m.flatten() for m in moved.values()]).norm() == pytest.approx(0.01, rel=1e-3)


def test_groups_of_the_optimiser():
    """Only weights decay; coefficients have their own constant rate where one is given."""
    config = Config(lr=0.1, weight_decay=5e-4, coefficient_lr=0.01, lr_decay=0.5, lr_every=2)
    learner = Learner(config, DATA, CPU)
    weights, coefficients = learner.optimizers[0].param_groups
    assert (weights["weight_decay"], coefficients["weight_decay"]) == (5e-4, 0)
    assert sum(p.numel() for p in coefficients["params"]) == 40
    rates = []
    for epoch in (1, 2, 3, 5):
        learner._set_rates(epoch)
        rates.append((weights["lr"], coefficients["lr"]))
    assert rates == [(0.1, 0.01), (0.1, 0.01), (0.05, 0.01), (0.025, 0.01)]
    (same,) = make_optimizers(replace(config, coefficient_lr=None), learner.net, CPU)
    assert same.param_groups[1]["lr"] == 0.1 and same.param_groups[1]["decays"]


@pytest.mark.parametrize("activation, numbers", [("prelu", 4), ("srelu", 904), ("slaf", 24)])
def test_parameters_of_other_activations_do_not_decay(activation, numbers):
    config = Config(activation=activation, weight_decay=0.1)
    net = build_net(config, DATA)
    weights, others = make_optimizers(config, net, CPU)[0].param_groups
    assert (weights["weight_decay"], others["weight_decay"]) == (0.1, 0)
    assert sum(p.numel() for p in others["params"]) == numbers
    assert len(find_activations(net)) == 4


def test_means_are_those_of_the_whole_test_set():
    learner = Learner(Config(), DATA, CPU)
    for _ in learner.test():
        pass
    with torch.no_grad():
        logits = learner.net.eval()(normalise(DATA.test_images, DATA.mean, DATA.std))
    means = learner.means("test", top5=True)
    loss = F.cross_entropy(logits, DATA.test_labels)
    assert means["test_loss"] == pytest.approx(loss.item(), rel=1e-6)
    right = (logits.argmax(1) == DATA.test_labels).double().mean().item()
    assert means["test_accuracy"] == pytest.approx(100 * right)
    among = (logits.topk(5).indices == DATA.test_labels[:, None]).any(1).double().mean().item()
    assert means["test_top5"] == pytest.approx(100 * among)


def test_learned_numbers_in_the_metrics():
    assert Learner(Config(activation="relu"), DATA, CPU).coefficients() == {}
    prelu = Learner(Config(activation="prelu"), DATA, CPU).coefficients()["learned"]
    assert list(prelu.values()) == [[[0.25]]] * 4
    assert len(Learner(Config(activation="rpau"), DATA, CPU).coefficients()["units"]) == 4
    assert Learner(Config(activation="srelu"), DATA, CPU).coefficients() == {}


def test_too_large_a_batch():
    with pytest.raises(ValueError, match="batch_size=2000 is more than digits has"):
        Learner(Config(batch_size=2000), DATA, CPU)


OPTIMIZERS = ["adam", "adamw", "rmsprop", "sgd"] + ["muon"] * hasattr(torch.optim, "Muon")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_that_goes_on_is_the_same_run(optimizer):
    """What the optimisers and the stabiliser know is in the state, and a graph puts it back."""
    config = Config(
        net="mlp", activation="pau", stabilize=0.01, optimizer=optimizer, lr=0.02, momentum=0.9
    )
    whole, first, second = (Learner(config, DATA, CPU) for _ in range(3))
    for learner, epochs in ((whole, (1, 2)), (first, (1,))):
        for epoch in epochs:
            for _ in learner.train(epoch):
                pass
    second.restore({**first.state(), "epoch": 1})
    for _ in second.train(2):
        pass
    assert str(second.stabilizer) == str(whole.stabilizer)
    assert "gradients of" in str(whole.stabilizer)
    for a, b in zip(second.net.parameters(), whole.net.parameters(), strict=True):
        assert torch.equal(a, b)
    assert {t.data_ptr() for t in whole.stabilizer.tensors()} <= {
        t.data_ptr() for t in whole._tensors()
    }


def test_the_guard_of_old_records_is_refused():
    with pytest.raises(ValueError, match=r"coefficient_floor=0.1: the guard of older versions"):
        Learner(Config(activation="pau", coefficient_floor=0.1), DATA, CPU)
