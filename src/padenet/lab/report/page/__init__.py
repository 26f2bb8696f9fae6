"""``report.html``: one file that holds tables, curves and units, and asks no network.

data.py     what is embedded, as JSON
page.html   the frame; {{names}} are filled in here
page.css    light and dark
tables.js   theme; sorting, and back; CSV
chart.js    axes
save.js     a chart as SVG and PNG
legend.js   which curves are drawn, and which one stands out
curves.js   learning curves
reading.js  the values beneath a chart: by pointer, touch and keys; zoom
units.js    the rational function, its band, slider and play button
"""

import json
import re
from html import escape
from importlib import resources

from padenet.lab.report.cells import Cell
from padenet.lab.report.names import COLOURS, DARK
from padenet.lab.report.page.data import page_data
from padenet.lab.report.tables.formats import to_html
from padenet.lab.report.tables.table import Table

SCRIPTS = ("tables", "chart", "save", "legend", "curves", "reading", "units")


def make_page(
    title: str,
    facts: dict[str, str],
    results: list[Table],
    more: list[Table],
    cells: list[Cell],
) -> str:
    """The page as text. ``more`` are the tables that follow the charts, a section each."""
    data = page_data(cells, [*results, *more])
    anchors = {"results": "Results", "curves": "Learning curves"}
    anchors |= {"units": "Learned activations"} if data["units"] else {}
    anchors |= {f"section-{t.name}": t.title for t in more} | {"facts": "How it was made"}
    filled = {
        "title": escape(title),
        "style": _asset("page.css"),
        "colours": " ".join(
            f"--c{i}: light-dark({light}, {dark});"
            for i, (light, dark) in enumerate(zip(COLOURS, DARK, strict=True))
        ),
        "lead": escape(f"{facts['runs']}. {facts['time']}."),
        "nav": "".join(f'<a href="#{a}">{escape(t)}</a>' for a, t in anchors.items()),
        "results": "\n".join(f"<h3>{escape(t.title)}</h3>\n{to_html(t)}" for t in results),
        "more": "\n".join([*map(_section, more), _facts(facts)]),
        "data": embed(data),
        "script": "\n".join(_asset(f"{name}.js") for name in SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: filled[m[1]], _asset("page.html"))


def embed(data: object) -> str:
    """Compact JSON that cannot end the script element it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")


def _asset(name: str) -> str:
    file = resources.files("padenet.lab.report.page") / name
    return file.read_text(encoding="utf-8").rstrip("\n")


def _section(table: Table) -> str:
    plain = not any(c.numeric for c in table.columns)
    body = to_html(table)
    if plain:
        body = body.replace("<table ", '<table class="plain" ', 1)
    return (
        f'<section id="section-{table.name}" aria-labelledby="{table.name}-title">\n'
        f'<h2 id="{table.name}-title">{escape(table.title)}</h2>\n{body}</section>'
    )


def _facts(facts: dict[str, str]) -> str:
    items = "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return (
        '<section id="facts" aria-labelledby="facts-title">\n'
        f'<h2 id="facts-title">How it was made</h2>\n<dl>\n{items}\n</dl>\n</section>'
    )
