"""A table as Markdown, LaTeX, CSV and HTML."""

import csv
import io

from padenet.lab.report.tables.formats import to_csv, to_html, to_latex, to_markdown
from padenet.lab.report.tables.table import Column, Entry, Table

TABLE = Table(
    "odd",
    "Odd & ends",
    "A caption with 100 % & more.",
    [Column("a_b", numeric=False), Column("mean ± std", "Net"), Column("best", "Net")],
    [[Entry("x|y <b>"), Entry("1.00 ± 0.10", 1.0, "•", "2/3 seeds"), Entry("–")]],
    [{"name": 'x,"y"', "mean": 1 / 3, "std": None}],
)


def test_markdown():
    assert to_markdown(TABLE).splitlines()[2:] == [
        "| a_b | Net: mean ± std | Net: best |",
        "| :--- | ---: | ---: |",
        r"| x\|y \<b> | **• 1.00 ± 0.10** (2/3 seeds) | – |",
    ]


def test_latex():
    text = to_latex(TABLE)
    assert r"\caption{A caption with 100 \% \& more.}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert r" & \multicolumn{2}{c}{Net} \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"a\_b & mean $\pm$ std & best \\" in text
    assert r"\textbf{$\bullet$\,1.00 $\pm$ 0.10} {\scriptsize (2/3 seeds)} & -- \\" in text
    assert text.count("{") == text.count("}")
    assert text.isascii()


def test_latex_of_wide_and_long_tables():
    wide = Table("w", "W", "C.", [Column("x" * 80)], [[Entry("1")]])
    assert r"\resizebox{\textwidth}{!}{%" in to_latex(wide)
    text = to_latex(Table("l", "L", "C.", [Column("x")], [[Entry("1")]] * 60))
    assert r"\begin{longtable}{r}" in text and r"\begin{table}" not in text
    assert text.count("1 \\\\") == 60


def test_csv_keeps_all_digits():
    (record,) = csv.DictReader(io.StringIO(to_csv(TABLE)))
    assert record == {"name": 'x,"y"', "mean": repr(1 / 3), "std": ""}


def test_html_escapes():
    text = to_html(TABLE)
    assert "x|y &lt;b&gt;" in text
    assert 'aria-label="Odd &amp; ends"' in text
    assert 'class="number first" data-value="1"' in text
