"""States of units under DDP and FSDP2, and in the checkpoints that processes write together."""

import pytest
import torch
import torch.distributed.checkpoint as dcp
from processes import MARKS, WRAPS, joined, run
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)

import padenet

pytestmark = MARKS


def make(*starts, **options):
    torch.manual_seed(0)
    units = [padenet.PAU(start, groups=3, **options) for start in starts]
    return nn.Sequential(nn.Linear(3, 6), units[0], nn.Linear(6, 6), units[1])


PAIR = ([0.0, 1.0, 0.5, 0.0, 0.0, 0.1], [0.0, 0.1, 0.0, 0.2])
SAVED = "tanh", PAIR
WHOLE = StateDictOptions(full_state_dict=True)


def work(rank, store):
    with joined(rank, store):
        for name, wrap in WRAPS.items():
            saved, net = wrap(make(*SAVED)), wrap(make("gelu", "gelu"))
            dcp.save({"net": get_model_state_dict(saved)}, checkpoint_id=f"{store}/{name}")
            state = {"net": get_model_state_dict(net)}
            dcp.load(state, checkpoint_id=f"{store}/{name}")
            set_model_state_dict(net, state["net"])
            again = wrap(make("gelu", "gelu"))
            set_model_state_dict(again, get_model_state_dict(saved, options=WHOLE), options=WHOLE)
            other = wrap(make("gelu", "gelu", form="abs_terms"))
            try:
                other.load_state_dict(saved.state_dict())
                said = ""
            except RuntimeError as error:
                said = str(error)
            reads = [get_model_state_dict(n, options=WHOLE) for n in (saved, net, again)]
            units = [
                [m.extra_repr() for m in n.modules() if isinstance(m, padenet.PAU)]
                for n in (net, again)
            ]
            torch.save((reads, units, said), f"{store}/{name}-{rank}.pt")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(work, tmp_path_factory)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", WRAPS)
def test_states_travel(name, rank, results):
    reads, units, said = torch.load(results / f"{name}-{rank}.pt", weights_only=True)
    plain = make(*SAVED).state_dict()
    assert "1'" in said and "saved with form='safe', q=1.0 and has form='abs_terms'" in said
    for shown in units:
        assert shown == [m.extra_repr() for m in make(*SAVED) if isinstance(m, padenet.PAU)]
    if rank == 0 or name == "ddp":
        for state in reads:
            assert state.keys() == plain.keys()
            weights = [k for k in plain if not k.endswith("_extra_state")]
            assert all(torch.equal(state[k], plain[k]) for k in weights)
        make("gelu", "gelu").load_state_dict(reads[0])
