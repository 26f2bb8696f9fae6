"""Figures: what is drawn, on which axes, and that matplotlib's global state stays as it was."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

import padenet
from padenet.core.starting.starts import STARTS
from padenet.torch.seeing.fits import plot_fit, plot_starts
from padenet.torch.seeing.style import save_figure

matplotlib = pytest.importorskip("matplotlib")

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


def labels_of(ax):
    return ax.get_legend_handles_labels()[1]


def line_of(ax, label):
    (line,) = (line for line in ax.get_lines() if line.get_label() == label)
    return line.get_xdata(), line.get_ydata()


def moved(unit):
    with torch.no_grad():
        unit.a.mul_(1.5)
    return unit


def test_units_of_a_model():
    model = nn.Sequential(nn.Linear(3, 4), padenet.PAU("tanh"), nn.Sequential(moved(padenet.PAU())))
    figure = padenet.plot(model, interval=(-2, 4))
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("1", "2.0")
    x, y = line_of(first, "unit")
    assert (x[0], x[-1]) == (-2, 4)
    expected = model[1].double()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(y, expected, rtol=1e-15)
    assert labels_of(first) == ["unit"]  # it has not moved from its start
    assert labels_of(second) == ["start", "unit"]
    np.testing.assert_allclose(
        1.5 * line_of(second, "start")[1], line_of(second, "unit")[1], 0, 1e-6
    )
    assert labels_of(padenet.plot(model, start=False).axes[1]) == ["unit"]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["unit", "start"]


def test_a_unit_on_given_axes():
    figure = matplotlib.figure.Figure()
    ax, other = figure.subplots(1, 2)
    assert padenet.plot(padenet.PAU("gelu"), axes=ax) is figure
    assert len(ax.get_lines()) > 0 and not other.get_lines()
    assert ax.get_title() == "PAU" and not figure.legends
    model = nn.Sequential(padenet.PAU(), padenet.PAU())
    assert padenet.plot(model, axes=[ax, other]) is figure
    with pytest.raises(ValueError, match="1 axes were given for 2 units"):
        padenet.plot(model, axes=ax)


def test_groups():
    unit = padenet.PAU("relu", groups=4)
    with torch.no_grad():
        unit.a *= torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]
    (ax,) = padenet.plot(unit).axes
    x, median = line_of(ax, "median of the groups")
    at_zero = STARTS["relu"].a[0]
    assert median[np.abs(x).argmin()] == pytest.approx(2.5 * at_zero)
    thin = [line for line in ax.get_lines() if line.get_label().startswith("_child")]
    heights = [line.get_ydata()[300] for line in thin if len(line.get_ydata()) == 601]
    assert heights == pytest.approx([at_zero * k for k in (1, 2, 3, 4)])


def test_inputs_of_another_kind_are_refused():
    with pytest.raises(TypeError, match=r"inputs must be a padenet\.InputHistogram, got int"):
        padenet.plot(padenet.PAU(), inputs=3)


def test_band_of_small_noise_is_wider_and_says_so():
    unit = padenet.RPAU("tanh", alpha=0.01)
    (ax,) = padenet.plot(unit).axes
    (wide,) = padenet.plot(padenet.RPAU("tanh", alpha=0.1)).axes[0].collections
    (band,) = ax.collections
    assert band.get_label() == "10 times the noise (95 %)" and unit.alpha == 0.01
    assert np.array_equal(band.get_paths()[0].vertices, wide.get_paths()[0].vertices)


def test_noise_band():
    unit = padenet.RPAU("tanh", alpha=0.1)
    state = torch.random.get_rng_state()
    (ax,) = padenet.plot(unit).axes
    assert torch.equal(torch.random.get_rng_state(), state)
    (band,) = ax.collections
    assert band.get_label() == "noise (95 %)"
    corners = band.get_paths()[0].vertices
    at_2 = corners[np.abs(corners[:, 0] - 2) < 1e-9][:, 1]
    torch.manual_seed(0)
    draws = unit.train()(torch.full((100_000,), 2.0)).detach().double()
    low, high = torch.quantile(draws, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    # 2000 draws: the standard error of a 2.5 % quantile is some 0.06 standard deviations
    assert at_2.min() == pytest.approx(low, abs=0.3 * draws.std().item())
    assert at_2.max() == pytest.approx(high, abs=0.3 * draws.std().item())
    (ax,) = padenet.plot(padenet.RPAU(alpha=0)).axes
    assert not ax.collections


def test_inputs_behind_the_curve():
    unit = padenet.PAU()
    with padenet.InputHistogram(unit, interval=(-2, 2), bins=4) as inputs:
        unit(torch.tensor([-1.5, 0.5, 0.5, 1.5, 7.0]))
    (ax,) = padenet.plot(unit, inputs=inputs).axes
    assert ax.get_xlim() == (-2, 2)
    (bars,) = ax.patches
    heights, edges, _ = bars.get_data()
    assert edges.tolist() == [-2, -1, 0, 1, 2]
    assert (heights / heights.max()).tolist() == [0.5, 0, 1, 0.5]
    assert ax.get_xlabel() == "20.0 % of inputs beyond [-2, 2]"


def test_poles_are_not_joined():
    """1 / (1 - x²) on [-3, 3]: the curve breaks at the poles, and they do not set the height."""
    unit = padenet.PAU(([1.0], [0.0, -1.0]), degrees=(0, 2), form="free")
    (ax,) = padenet.plot(unit).axes
    x, y = line_of(ax, "unit")
    assert np.isnan(y).sum() >= 2 and np.allclose(np.abs(x[np.isnan(y)]), 1, atol=0.02)
    low, high = ax.get_ylim()
    assert -50 < low < 0 < high < 50


def test_long_names_are_wrapped():
    model = nn.Sequential()
    inner = nn.Sequential()
    inner.add_module("an_activation_with_a_long_name", padenet.PAU())
    model.add_module("a_layer_with_a_name", inner)
    (ax,) = padenet.plot(model).axes
    assert ax.get_title() == "a_layer_with_a_name.\nan_activation_with_a_long_name"


def test_fit_and_starts():
    found = padenet.Fit(
        STARTS["tanh"].a, STARTS["tanh"].b, 1e-6, 4e-6, "safe", 1.0, (-3, 3), (5, 4), "rms"
    )
    top, bottom = plot_fit(found, torch.tanh, "tanh").axes
    assert labels_of(top) == ["fit, degrees (5, 4)", "tanh"]
    error = bottom.get_lines()[0].get_ydata()
    assert np.abs(error).max() == pytest.approx(STARTS["tanh"].max_error, rel=0.01)
    x = np.array([2.0, -1.0, 9.0])
    top, _ = plot_fit(found, (x, np.tanh(x)), "table").axes
    assert line_of(top, "table")[0].tolist() == [-1, 2]
    panels = plot_starts().axes
    assert [ax.get_title() for ax in panels] == [n for n in STARTS if "paper" not in n]
    assert all(ax.get_xlim()[0] <= -10 and ax.get_xlim()[1] >= 10 for ax in panels)


def test_a_wide_fit_is_drawn_as_far_as_it_looks():
    start = STARTS["tanh"]
    options = (1e-6, 4e-6, "safe", 1.0, (-3, 3), (5, 4), "rms")
    for aim, end in (("wide", 10), ("near", 3), ("steady", 3)):
        found = padenet.Fit(start.a, start.b, *options, aim)
        assert [ax.get_xlim() for ax in plot_fit(found, torch.tanh).axes] == [(-end, end)] * 2


def test_starts_of_an_aim():
    for aim in ("wide", "near", "steady"):
        panels = plot_starts(interval=(-2, 2), aim=aim).axes
        x, y = line_of(panels[[ax.get_title() for ax in panels].index("gelu")], "start, F(x)")
        unit = padenet.PAU("gelu", aim=aim, dtype=torch.float64)
        np.testing.assert_allclose(y, unit(torch.tensor(x)).detach(), rtol=1e-13, atol=1e-13)


def test_files(tmp_path):
    figure = padenet.plot(padenet.PAU())
    save_figure(figure, tmp_path / "unit.png")
    save_figure(figure, tmp_path / "unit.svg")
    assert (tmp_path / "unit.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match=r"names no format.*png"):
        save_figure(figure, tmp_path / "unit.xyz")
    with pytest.raises(OSError, match="missing"):
        save_figure(figure, tmp_path / "missing" / "unit.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["unit.png", "unit.svg"]


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_the_same_figure_is_the_same_file(tmp_path, ending, monkeypatch):
    """Also on another day: matplotlib takes its dates from this variable."""
    for day in "12":
        monkeypatch.setenv("SOURCE_DATE_EPOCH", day + "000000")
        save_figure(padenet.plot(padenet.PAU()), tmp_path / f"{day}.{ending}")
    assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="Linear has no Padé units"):
        padenet.plot(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="a model or unit is needed, not list"):
        padenet.plot([1])


def test_pyplot_stays_out(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # its import would fail
    save_figure(padenet.plot(padenet.PAU()), tmp_path / "unit.png")
    assert (tmp_path / "unit.png").exists()
