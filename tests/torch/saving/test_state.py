"""What a unit is travels with its state, through what is done to states, and is checked."""

import copy
import io
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

import padenet
from padenet.torch.seeing.finding import read_units

PAIR = ([0.0, 1.0, 0.5, 0.0, 0.0, 0.1], [0.0, 0.1, 0.0, 0.2])
OTHERS = {
    "form": (dict(form="abs_terms"), "form='abs_terms' and has form='safe', q=1.0 here"),
    "q": (dict(q=0.1), "q=0.1 and has q=1.0 here"),
    "degrees": (dict(degrees=(3, 2)), r"degrees=\(3, 2\) and has degrees=\(5, 4\) here"),
    "groups": (dict(groups=3), "groups=3, channel_dim=1 and has groups=1 here"),
}
OLD = "the state of some units does not say their form"


def make(*args, unit=padenet.PAU, **options):
    return nn.Sequential(nn.Linear(3, 6), unit(*args, **options), nn.Linear(6, 2))


def without(state):
    """As versions wrote it that kept a and b alone."""
    return {k: v for k, v in state.items() if not k.endswith("_extra_state")}


def move(unit):
    """As training does."""
    with torch.no_grad():
        for p in unit.parameters():
            p.mul_(1.25).add_(0.01)
    return unit


@pytest.mark.parametrize("options, said", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("strict", [True, False])
def test_another_unit_is_refused_and_left_as_it_is(options, said, strict):
    net = make()
    before = copy.deepcopy(net[1].state_dict())
    with pytest.raises(RuntimeError, match=f"unit '1': it was saved with {said}.*padenet.load"):
        net.load_state_dict(
            make(PAIR if "degrees" not in options else "tanh", **options).state_dict(),
            strict=strict,
        )
    assert all(torch.equal(v, before[k]) for k, v in net[1].state_dict().items())


def test_channel_dim_counts_with_groups():
    state = padenet.PAU(groups=2, channel_dim=-1).state_dict()
    with pytest.raises(RuntimeError, match=r"the unit: .*channel_dim=-1 and has channel_dim=1"):
        padenet.PAU(groups=2).load_state_dict(state)
    padenet.PAU().load_state_dict(padenet.PAU(channel_dim=-1).state_dict())


@pytest.mark.parametrize("q", [0.1, 1e-6, 0.1 + 2**-50])
def test_q_is_kept_to_the_last_bit(q):
    state = padenet.PAU(q=q).state_dict()
    padenet.PAU(q=q).load_state_dict(state)
    with pytest.raises(RuntimeError, match="q="):
        padenet.PAU(q=q * (1 + 2**-50)).load_state_dict(state)


def test_pau_and_rpau_are_one_kind():
    for one, other in ((padenet.PAU, padenet.RPAU), (padenet.RPAU, padenet.PAU)):
        other().load_state_dict(one("tanh").state_dict())


def test_states_of_earlier_versions_load_with_a_word():
    old, net = without(make("tanh").state_dict()), make()
    with pytest.warns(UserWarning, match=OLD) as said:
        result = net.load_state_dict(old)
    assert len(said) == 1 and not result.missing_keys
    assert repr(net[1]) == "PAU(init=loaded, degrees=(5, 4), form='safe')"
    again = make()
    again.load_state_dict(net.state_dict())  # says its form now, and still not its start
    assert repr(again[1]) == repr(net[1])
    net[1].reset_parameters()
    assert repr(net[1]) == repr(padenet.PAU())


def test_a_state_without_the_unit_needs_no_word():
    net = make()
    result = net.load_state_dict({"0.bias": torch.zeros(6)}, strict=False)
    assert "1.a" in result.missing_keys and repr(net[1]) == repr(padenet.PAU())


def test_the_start_is_taken_over():
    saved = move(padenet.PAU("tanh", aim="near"))
    unit = padenet.PAU()
    unit.load_state_dict(saved.state_dict())
    assert repr(unit) == repr(saved) and torch.equal(unit.a, saved.a)
    for u in (unit, saved):
        u.reset_parameters()
    assert torch.equal(unit.a, saved.a)


def test_a_start_without_a_name_is_what_was_loaded():
    saved = move(padenet.PAU(PAIR))
    unit, same = padenet.PAU(), padenet.PAU(PAIR)
    for u in (unit, same):
        u.load_state_dict(saved.state_dict())
        assert repr(u) == repr(saved)
        u.reset_parameters()
    assert torch.equal(unit.a, saved.a)
    assert torch.equal(same.b, torch.tensor(PAIR[1])) and not torch.equal(same.b, saved.b)


@pytest.mark.parametrize("first", ["stabilize", "load"])
def test_stabilize_keeps_b_n_where_the_loaded_unit_had_it(first):
    """The start of sigmoid has b_4 = 0.0006, that of lrelu 0.3: a unit that came as a sigmoid
    is not led to a tenth of the other."""
    saved, net = make("sigmoid"), make()
    if first == "load":
        net.load_state_dict(saved.state_dict())
    optimizer = torch.optim.SGD(padenet.param_groups(net, lr=1e-9))
    held = padenet.stabilize(net, optimizer)
    net.load_state_dict(saved.state_dict())
    for _ in range(3):
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    assert abs(saved[1].b[-1].item()) < 0.1 * padenet.PAU().b[-1].item()
    torch.testing.assert_close(net[1].b[-1], saved[1].b[-1])
    assert held.report()[0].held == 0


def keep_running_mean(state):
    mean = copy.deepcopy(state)
    for _ in range(3000):
        for k, v in mean.items():
            v.mul_(0.999).add_(state[k], alpha=0.001)
    return mean


WEIGHTS = {  # what is done to all tensors of states
    "mean": lambda s: {k: (v + v) / 2 for k, v in s.items()},
    "weighted": lambda s: {k: 0.7 * v + 0.3 * v for k, v in s.items()},
    "sum of 300": lambda s: {k: sum([v] * 300) / 300 for k, v in s.items()},
    "float16": lambda s: {k: v.half() for k, v in s.items()},
    "bfloat16": lambda s: {k: v.bfloat16() for k, v in s.items()},
    "running mean": keep_running_mean,
    "numpy": lambda s: {k: torch.from_numpy(v.numpy()) for k, v in s.items()},
}


@pytest.mark.parametrize("change", WEIGHTS.values(), ids=WEIGHTS)
def test_averages_and_casts(change):
    options = dict(form="offset", q=1.2345678901234567e-05, groups=6, channel_dim=-1)
    state = change(make("tanh", unit=padenet.RPAU, **options).state_dict())
    make("tanh", **options).load_state_dict(state)
    with pytest.raises(RuntimeError, match="form='offset'"):
        make("tanh", groups=6).load_state_dict(state)


def test_a_damaged_state_says_so():
    state = make().state_dict()
    state["1._extra_state"] = state["1._extra_state"] + 1
    with pytest.raises(RuntimeError, match=r"'1\._extra_state' does not say what the unit is"):
        make().load_state_dict(state)


def test_states_without_values():
    """Shapes alone: on "meta", or of a fake model."""
    with torch.device("meta"):
        net = make("tanh")
        net.load_state_dict(make("tanh").state_dict())
    with torch._subclasses.FakeTensorMode():
        make().load_state_dict(make(PAIR).state_dict())


def test_a_model_from_meta():
    saved, x = make("tanh", q=0.5), torch.randn(4, 3)
    with torch.device("meta"):
        net = make("gelu", q=0.5)
    net.load_state_dict(saved.state_dict(), assign=True)
    assert torch.equal(net(x), saved(x)) and repr(net) == repr(saved)


def test_copies_of_models():
    """Averaged, shared between processes, called with a state, stacked."""
    net, x = make("tanh", q=0.5), torch.randn(4, 3)
    for buffers in (False, True):
        mean = torch.optim.swa_utils.AveragedModel(net, use_buffers=buffers)
        mean.update_parameters(net)
        make(q=0.5).load_state_dict(mean.module.state_dict())
    copy.deepcopy(net).share_memory().load_state_dict(net.state_dict())
    assert torch.equal(torch.func.functional_call(net, net.state_dict(), x), net(x))
    assert list(torch.func.stack_module_state([net, net])[0]) == [
        k for k, _ in net.named_parameters()
    ]
    nn.DataParallel(make(q=0.5)).load_state_dict(nn.DataParallel(net).state_dict())


def test_distributed_checkpoints(tmp_path):
    """They load in place: a state of another kind gets as far as the check."""
    saved, net = make("tanh"), make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that only one process is there
        dcp.save(saved.state_dict(), checkpoint_id=tmp_path)
        state = net.state_dict()
        dcp.load(state, checkpoint_id=tmp_path)
        other = make(form="abs_terms").state_dict()
        dcp.load(other, checkpoint_id=tmp_path)
    net.load_state_dict(state)
    assert torch.equal(net[1].a, saved[1].a) and repr(net) == repr(saved)
    with pytest.raises(RuntimeError, match="saved with form='safe'"):
        make(form="abs_terms").load_state_dict(other)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_and_exported():
    net, x = make("tanh"), torch.randn(4, 3)
    compiled = torch.compile(net, backend="eager")
    torch.compile(make(), backend="eager").load_state_dict(compiled.state_dict())
    exported = torch.export.export(net, (x,))
    assert list(exported.state_dict) == [k for k, _ in net.named_parameters()]


def test_files_are_read_without_pickle():
    file = io.BytesIO()
    torch.save(make("tanh", groups=2).state_dict(), file)
    file.seek(0)
    make(groups=2).load_state_dict(torch.load(file, weights_only=True))


def test_units_of_a_file_are_of_its_form(tmp_path):
    """Those without a word are of the form given."""
    states = {"new": make(PAIR, form="abs_terms").state_dict()}
    states["old"] = without(make(PAIR, q=0.5).state_dict())
    torch.save(states, tmp_path / "both.pt")
    units = read_units(tmp_path / "both.pt", form="safe", q=0.5)
    assert {k: (u.form, u.q) for k, u in units.items()} == {
        "new/1": ("abs_terms", 1.0),
        "old/1": ("safe", 0.5),
    }
