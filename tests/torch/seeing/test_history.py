"""Snapshots of coefficients and counts of inputs: right values, constant size, clean hooks."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import padenet
from padenet.core.starting.starts import STARTS

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


def net():
    pair = (STARTS["relu"].a, STARTS["relu"].b)
    return nn.Sequential(nn.Linear(2, 4), padenet.PAU("tanh"), padenet.PAU(pair, groups=2, q=0.5))


def trained():
    """Three snapshots of a net whose coefficients are multiplied by 2 in between."""
    model = net()
    history = padenet.History(model)
    for step in (0, 10, 25):
        history.snapshot(step)
        with torch.no_grad():
            for p in (model[1].a, model[2].b):
                p.mul_(2)
    return history


def test_snapshots():
    history = trained()
    assert history.steps == [0, 10, 25] and len(history) == 3 and history.names == ["1", "2"]
    a, b = history.coefficients("1")
    start = padenet.PAU("tanh")
    assert a.dtype == np.float64 and a.shape == (3, 6) and b.shape == (3, 4)
    for i, factor in enumerate((1, 2, 4)):
        assert np.array_equal(a[i], factor * start.a.detach().double().numpy())
        assert np.array_equal(b[i], start.b.detach().double().numpy())
    assert history.coefficients("2")[0].shape == (3, 2, 6)


def test_snapshots_are_copies():
    unit = padenet.PAU("tanh", dtype=torch.float64)
    history = padenet.History(unit)
    history.snapshot(0)
    with torch.no_grad():
        unit.a.zero_()
    assert np.array_equal(history.coefficients("PAU")[0][0], STARTS["tanh"].a)


def test_units_as_they_were():
    history = trained()
    units = history.units(1)
    assert units["2"].q == 0.5 and units["2"].groups == 2
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)
    expected = 2 * padenet.PAU("tanh").double()(x)
    torch.testing.assert_close(units["1"](x), expected, rtol=1e-14, atol=0)
    units["1"].reset_parameters()
    torch.testing.assert_close(units["1"](x), expected / 2, rtol=1e-14, atol=0)


def test_units_stay_what_they_are(tmp_path):
    model = nn.Sequential(padenet.RPAU("tanh", alpha=0.2, groups=2, channel_dim=-1), padenet.PAU())
    history = padenet.History(model)
    history.snapshot(0)
    history.save(tmp_path / "units.npz")
    for kept in (history, padenet.History.load(tmp_path / "units.npz")):
        noisy, plain = kept.units().values()
        assert (type(noisy), noisy.alpha, noisy.spec) == (padenet.RPAU, 0.2, model[0].spec)
        assert type(plain) is padenet.PAU
        x = torch.linspace(-2, 2, 8, dtype=torch.float64).reshape(2, 4)
        assert torch.equal(noisy(x), model[0].eval().double()(x))


def test_files_without_the_kind_of_units_are_read(tmp_path):
    kinds = '[{"name": "f", "form": "safe", "q": 1.0, "groups": 1}]'
    tables = {"a0": np.ones((1, 6)), "b0": np.ones((1, 4))}
    np.savez(tmp_path / "units.npz", steps=np.array([3]), units=np.array(kinds), **tables)
    unit = padenet.History.load(tmp_path / "units.npz").units()["f"]
    assert type(unit) is padenet.PAU and unit.channel_dim == 1


def test_save_and_load(tmp_path):
    history = trained()
    history.save(tmp_path / "units.npz")
    loaded = padenet.History.load(tmp_path / "units.npz")
    assert loaded.steps == history.steps and loaded.names == history.names
    for name in history.names:
        for one, other in zip(history.coefficients(name), loaded.coefficients(name), strict=True):
            assert np.array_equal(one, other)
    assert loaded.units(0)["2"].spec == history.units(0)["2"].spec
    assert [p.name for p in tmp_path.iterdir()] == ["units.npz"]
    with pytest.raises(RuntimeError, match="no model"):
        loaded.snapshot(30)
    (tmp_path / "other.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"no file that History\.save wrote"):
        padenet.History.load(tmp_path / "other.npz")
    np.savez(tmp_path / "third.npz", steps=1)
    with pytest.raises(ValueError, match=r"no file that History\.save wrote"):
        padenet.History.load(tmp_path / "third.npz")


def test_errors():
    history = padenet.History(net())
    with pytest.raises(ValueError, match="the history is empty"):
        history.save("never.npz")
    history.snapshot(5)
    with pytest.raises(ValueError, match="step=5 must be greater than the last one, 5"):
        history.snapshot(5)
    with pytest.raises(KeyError, match="no unit '9'"):
        history.coefficients("9")
    with pytest.raises(ValueError, match="no Padé units"):
        padenet.History(nn.Linear(2, 2))


def test_animation(tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    trained().animate(tmp_path / "units.gif", seconds=3, interval=(-2, 2))
    with image.open(tmp_path / "units.gif") as gif:
        assert gif.n_frames == 3 and gif.info["duration"] == 1000 and gif.info["loop"] == 0
        frames = []
        for i in range(3):
            gif.seek(i)
            frames.append(np.asarray(gif.convert("RGB")).astype(int))
    assert all((f != g).any() for f, g in itertools.pairwise(frames))
    assert [p.name for p in tmp_path.iterdir()] == ["units.gif"]


def test_animation_is_a_gif(tmp_path):
    with pytest.raises(ValueError, match=r"units\.mp4' is no name of a GIF"):
        trained().animate(tmp_path / "units.mp4")
    assert not list(tmp_path.iterdir())


def test_animation_explains_what_it_draws(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    model = nn.Sequential(padenet.RPAU("tanh"), padenet.PAU("tanh"))
    history = padenet.History(model)
    history.snapshot(0)
    figures = []
    new_grid = padenet.torch.seeing.history.new_grid
    keep = lambda *args: figures.append(new_grid(*args)) or figures[-1]
    monkeypatch.setattr(padenet.torch.seeing.history, "new_grid", keep)
    history.animate(tmp_path / "units.gif")
    (legend,) = figures[0][0].legends
    assert [t.get_text() for t in legend.get_texts()] == ["10 times the noise (95 %)", "unit"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained().to_tensorboard(tmp_path, tag="units", interval=(-2, 2))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["images"] == ["units"]
    images = events.Images("units")
    assert [e.step for e in images] == [0, 10, 25] and images[0].width > 300


FLOATS = st.one_of(
    st.floats(-4, 4, width=32), st.sampled_from([np.inf, -np.inf, np.nan, 3.0, -2.0, 1e30])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=40), st.sampled_from([1, 5, 16]))
def test_counts_are_numpys(values, bins):
    unit, x = padenet.PAU(), torch.tensor(values, dtype=torch.float64)
    with padenet.InputHistogram(unit, interval=(-2, 3), bins=bins) as inputs:
        unit(x.reshape(1, -1))
        unit(x=x[:1])
    seen = np.array([*values, values[0]])
    known = seen[~np.isnan(seen)]
    found = inputs["PAU"]
    edges = np.linspace(-2, 3, bins + 1)
    assert np.array_equal(found.edges, edges)
    assert found.below == (known < -2).sum() and found.above == (known > 3).sum()
    assert found.nan == np.isnan(seen).sum() and found.total == len(seen)
    near = (
        np.abs(known[:, None] - edges[1:-1]).min(initial=1, axis=1) < 1e-12
    )  # either bin is right
    if not near.any():
        inside = known[(known >= -2) & (known <= 3)]
        assert np.array_equal(found.counts, np.histogram(inside, edges)[0])


def test_recording():
    model = net()
    before = [dict(u._forward_pre_hooks) for u in model]
    inputs = padenet.InputHistogram(model, bins=10)
    x = torch.randn(7, 2)
    model(x)
    assert inputs["1"].total == 0
    with inputs:
        model(x).sum().backward()
        with pytest.raises(RuntimeError, match="counting already"), inputs:
            pass
    model(x)
    with inputs:
        model(x)
    assert inputs["1"].total == inputs["2"].total == 2 * 7 * 4
    assert [dict(u._forward_pre_hooks) for u in model] == before
    with pytest.raises(ZeroDivisionError), inputs:
        raise ZeroDivisionError
    assert [dict(u._forward_pre_hooks) for u in model] == before
    with pytest.raises(KeyError, match="Known: 1, 2"):
        inputs["0"]
    with pytest.raises(ValueError, match="bins=0"):
        padenet.InputHistogram(model, bins=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_and_large_inputs(dtype, monkeypatch):
    monkeypatch.setattr("padenet.torch.seeing.inputs.PART", 64)
    unit = padenet.PAU(dtype=dtype)
    with padenet.InputHistogram(unit, interval=(0, 4), bins=4) as inputs:
        unit(torch.arange(1000).remainder(4).add(0.5).to(dtype).reshape(10, 100).T)
    assert inputs["PAU"].counts.tolist() == [250] * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_counts_on_the_gpu_without_waiting():
    unit = padenet.PAU().cuda()
    x = torch.linspace(-7, 7, 100_001, device="cuda")
    with padenet.InputHistogram(unit) as inputs:
        unit(x)
        torch.cuda.set_sync_debug_mode("error")
        try:
            unit(x)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    counts = np.histogram(x.cpu().double().numpy(), inputs["PAU"].edges)[0]
    assert np.abs(inputs["PAU"].counts - 2 * counts).max() <= 4  # at the edges either bin is right
    assert inputs["PAU"].total == 200_002
