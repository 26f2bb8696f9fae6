"""The tool that makes the stored starts: it makes what is stored, and prints it for the docs."""

import json
from fractions import Fraction

import pytest
from fits import series
from tools import ROOT, tool


@pytest.fixture(scope="module")
def make_starts():
    pytest.importorskip("scipy", reason="tools/make_starts.py needs scipy")
    with tool("make_starts") as module:
        yield module


def test_file_is_what_the_script_makes(make_starts):
    """All of it: fitted again, every start keeps its digits, so its record is the same."""
    stored = json.loads(make_starts.OUT.read_text(encoding="utf-8"))
    made = make_starts.make()
    keys = lambda records: [(r["name"], r["aim"]) for r in records]
    assert keys(made) == keys(stored)
    for new, old in zip(made, stored, strict=True):
        figures = [
            (r.pop("rms"), r.pop("max_error"), *r.pop("errors").values()) for r in (new, old)
        ]
        assert figures[0] == pytest.approx(figures[1], rel=1e-5, abs=1e-12)
        assert new == old


def test_table_of_the_starts(make_starts, capsys):
    """What docs/coefficients.md shows is what is stored."""
    make_starts.table()
    page = (ROOT / "docs/coefficients.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() in page


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "swish"])
def test_printed_columns_are_pade_approximants(make_starts, name):
    """f Q - P = O(x^10), once sigmoid's b_4 is read as 1/1008."""
    c = [Fraction(v) for v in make_starts.PAPER[name].replace("1/10008", "1/1008").split()]
    a, Q = c[:6], [Fraction(1), *c[6:]]
    f = series(name, 10)
    product = [sum(f[i - k] * Q[k] for k in range(min(i, 4) + 1)) for i in range(10)]
    assert product == [*a, 0, 0, 0, 0]
