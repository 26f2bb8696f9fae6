"""Wins and paired differences: by hand, against SciPy, and with seeds that were lost."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import entries, lost, seeds

from padenet.lab.report.cells import collect
from padenet.lab.report.tables.compare import count_wins, holm, paired_differences
from padenet.lab.report.tables.comparisons import comparison_tables
from padenet.lab.report.tables.formats import to_csv, to_html, to_latex, to_markdown
from padenet.lab.report.tables.paper import paper_wins


def test_wins_count_cells():
    runs = [*seeds("relu", [90, 91]), *seeds("elu", [92, 92]), *seeds("celu", [91.501, 91.5])]
    runs += [
        *seeds("pau", [91, 92]),
        *seeds("pau", [80, 80], net="vgg"),
        *seeds("relu", [85, 85], net="vgg"),
    ]
    runs += [*seeds("swish", [99]), lost("swish", 1), lost("rrelu", 0, "unfinished")]
    found = {w.baseline: (w.better, w.equal, w.worse, w.open) for w in count_wins(collect(runs))}
    assert found["ReLU"] == (1, 0, 1, 0)
    assert found["ELU"] == (0, 0, 1, 0)
    assert found["CELU"] == (0, 1, 0, 0)
    assert found["Swish"] == (1, 0, 0, 0)  # lost a seed
    assert found["RReLU"] == (0, 0, 0, 1)
    table = comparison_tables(collect(runs))[0]
    assert entries(table, "ReLU") == ["1", "0", "1", "0", "34", "8"]
    assert paper_wins("maxout") == (9, 6)


def test_a_unit_that_lost_seeds_is_worse():
    runs = [*seeds("relu", [90, 90]), *seeds("pau", [99]), lost("pau", 1)]
    (wins,) = count_wins(collect(runs))
    assert (wins.better, wins.worse) == (0, 1)


def test_differences_are_paired_by_seed():
    stats = pytest.importorskip("scipy.stats")
    ours, theirs = [91.0, 92.5, 90.5, 93.0], [90.0, 92.0, 90.0, 91.0, 95.0]
    (found,) = paired_differences(collect([*seeds("pau", ours), *seeds("relu", theirs)]))
    assert (found.seeds, found.recorded) == (4, 5)
    assert found.mean == pytest.approx(1.0)
    # std .70711, so the half width is t(.975, 3) · .70711 / 2 = 3.18245 · .35355
    assert found.interval == pytest.approx((1 - 1.12516, 1 + 1.12516), abs=1e-4)
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs[:4]).pvalue)
    assert found.p_holm == pytest.approx(found.p)


@pytest.mark.parametrize("values", [[90.0], [90.0, 91.0]])
def test_no_test_without_a_spread(values):
    cells = collect([*seeds("pau", [v + 1 for v in values]), *seeds("relu", values)])
    (found,) = paired_differences(cells)
    assert (found.mean, found.interval, found.p, found.p_holm) == (1.0, None, None, None)
    row = [e.text for e in comparison_tables(cells)[2].rows[0]]
    assert row[4:] == [str(len(values)), "+1.00", "–", "–", "–"]


def test_wins_beyond_noise():
    """Better means alone decide nothing: +1.0 ± 0.06 does, in one cell; +0.1 ± 2 does not."""
    sure = [[91.0, 91.1, 90.9, 91.05, 90.95], [90.0, 90.0, 90.0, 90.0, 90.0]]
    chance = [[91.0, 88.0, 92.5, 90.0, 89.0], [90.0, 90.0, 90.0, 90.0, 90.0]]
    runs = []
    for net, (ours, theirs) in {"lenet": sure, "vgg": chance, "vgg8": sure[::-1]}.items():
        runs += [*seeds("pau", ours, net=net), *seeds("relu", theirs, net=net)]
    runs += [*seeds("elu", [80.0] * 4), lost("elu", 4)]  # its survivors are far worse
    runs += seeds("swish", [80.0], net="vgg")
    plain, decided, differences = comparison_tables(collect(runs))
    assert entries(plain, "ReLU")[:4] == ["2", "0", "1", "0"]
    assert entries(decided, "ReLU") == ["1", "1", "1", "0"]
    assert entries(plain, "ELU")[:4] == ["1", "0", "0", "0"]
    assert entries(decided, "ELU") == ["0", "0", "0", "1"]
    assert entries(decided, "Swish") == ["0", "0", "0", "1"]
    marked = [d for d in differences.records if d["p_holm"] is not None and d["p_holm"] < 0.05]
    assert [(d["net"], d["baseline"]) for d in marked if d["baseline"] == "ReLU"] == [
        ("lenet", "ReLU"),
        ("vgg8", "ReLU"),
    ]
    relu = decided.records[[r["baseline"] for r in decided.records].index("ReLU")]
    assert relu == {"unit": "PAU", "baseline": "ReLU"} | dict.fromkeys(
        ("better", "undecided", "worse"), 1
    ) | {"open": 0}
    for write, head in (
        (to_markdown, "PAU: undecided"),
        (to_latex, "undecided"),
        (to_csv, "undecided"),
    ):
        assert head in write(decided)
    assert 'id="wins-decided"' in to_html(decided)


def test_a_labelled_unit_meets_the_baselines_of_its_label():
    runs = [*seeds("relu", [90]), *seeds("relu", [80], label="small"), *seeds("pau", [91])]
    runs += [*seeds("pau", [81], label="small"), *seeds("pau", [92], label="clip")]
    pairs = {(d.unit.row, d.baseline.row) for d in paired_differences(collect(runs))}
    assert pairs == {("PAU", "ReLU"), ("PAU (small)", "ReLU (small)"), ("PAU (clip)", "ReLU")}


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_bonferroni_on_every_subset(p):
    """As a closed test: i is rejected if every set of hypotheses that holds it is rejected."""
    n = len(p)
    subsets = [c for size in range(1, n + 1) for c in combinations(range(n), size)]
    level = {c: min(1.0, len(c) * min(p[k] for k in c)) for c in subsets}
    assert holm(p) == [max(level[c] for c in subsets if i in c) for i in range(n)]
