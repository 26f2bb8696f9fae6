"""Figures of learned units: which run, and a band of the noise that can be seen."""

import math

import numpy as np
import pytest
from runs import lost, make_run, seeds

from padenet.lab.records.run import Run
from padenet.lab.report.cells import collect
from padenet.lab.report.figures.learned import (
    plot_coefficients,
    plot_units,
    shown_run,
    shown_scale,
)


def test_figures_without_usable_units():
    run = make_run(epochs=2)
    broken = {"features.0": {"a": [None, math.nan], "b": [1.0]}}
    metrics = [{**m, "units": broken} for m in run.metrics]
    assert plot_units(Run(run.config, metrics, run.result)) is None
    assert plot_coefficients(Run(run.config, metrics, run.result)) is None
    assert shown_run(collect([make_run(activation="relu", epochs=2)])[0]) is None


def test_figure_shows_the_first_finished_seed():
    runs = [lost("pau", 0), *seeds("pau", [90, 90, 90])[1:]]
    assert shown_run(collect(runs)[0]).config.seed == 1


@pytest.mark.parametrize(
    "alpha, scale, label",
    [
        (0.3, 1, "noise (95 %)"),
        (0.03, 1, "noise (95 %)"),
        (0.01, 10, "10 times the noise (95 %)"),
        (0.003, 10, "10 times the noise (95 %)"),
        (0.001, 100, "100 times the noise (95 %)"),
    ],
)
def test_band_is_wider_than_the_line_and_the_legend_says_by_how_much(alpha, scale, label):
    run = make_run(activation="rpau", epochs=2, alpha=alpha)
    assert shown_scale(run) == scale
    figure = plot_units(run)
    assert [t.get_text() for t in figure.legends[0].texts] == [label, "start", "unit"]
    figure.canvas.draw()
    for ax in figure.axes:
        (path,) = ax.collections[0].get_paths()
        x, y = (ax.transData.transform(path.vertices) * 72 / figure.dpi).T  # in points
        heights = [np.ptp(y[np.isclose(x, place)]) for place in np.unique(x.round(6))]
        line = next(line for line in ax.lines if line.get_label() == "unit")
        assert max(heights) > 2 * line.get_linewidth()


def test_no_band_no_word_of_it():
    silent = [make_run(), make_run(activation="rpau", alpha=0.0)]
    for run in [*silent, make_run(activation="rpau", groups=3)]:
        assert shown_scale(run) == 0
        labels = {t.get_text() for t in plot_units(run).legends[0].texts}
        assert not any("noise" in label for label in labels)
