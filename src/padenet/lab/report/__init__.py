"""Reports: from recorded runs to the paper's tables and figures and one interactive page.

    names.py        what things are called, their order and colours
    cells.py        runs gathered by data set, net and activation
    paper.py        the paper's own numbers
    compare.py      wins, paired differences, tests
    results.py, comparisons.py, overview.py    the tables
    table.py, formats.py                       what a table is, and how it is written
    curves.py, units.py                        the figures
    pruning.py                                 table and figure of pruned nets
    document.py, page/                         report.md, report.html
    publish.py                                 a report in the place of the one before

Data flow one way: a report reads runs and never changes them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from padenet.core.files import replacing
from padenet.lab.records.packing import read_sources
from padenet.lab.records.store import Run
from padenet.lab.report.cells import Cell, collect, rows_of, status
from padenet.lab.report.comparisons import comparison_tables
from padenet.lab.report.curves import plot_curves
from padenet.lab.report.document import make_document
from padenet.lab.report.formats import to_csv, to_latex, to_markdown
from padenet.lab.report.learned import (
    plot_coefficients,
    plot_units,
    shown_layers,
    shown_run,
    shown_scale,
)
from padenet.lab.report.names import looks
from padenet.lab.report.names import title as title_of
from padenet.lab.report.overview import facts, lost_tables, settings_table
from padenet.lab.report.page import make_page
from padenet.lab.report.pruning import (
    Point,
    fraction_of,
    plot_pruning,
    pruning_curves,
    pruning_table,
)
from padenet.lab.report.publish import publishing
from padenet.lab.report.results import results_tables
from padenet.lab.report.table import Table
from padenet.torch.seeing.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Activations compared"
FORMATS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}

__all__ = ["write_report"]


def write_report(source: str | Path, out: str | Path, title: str = TITLE) -> list[Path]:
    """Write the report on all runs of a directory or packed file into the directory ``out``.

        report.md, report.html
        tables/     every table as .md, .tex (booktabs) and .csv
        figures/    learning curves, learned activations, coefficients, as .png and .pdf
        files.txt   the names of all these

    An earlier report is replaced completely; files that it did not list stay.

    Returns:
        The files of the report.
    """
    runs = read_sources([source])
    cells = collect(runs)
    with publishing(Path(out)) as folder:
        files = [path.relative_to(folder) for path in _write_files(runs, cells, folder, title)]
    return [Path(out) / name for name in files]


def _write_files(runs: list[Run], cells: list[Cell], out: Path, title: str) -> list[Path]:
    for folder in ("tables", "figures"):
        (out / folder).mkdir()
    results = results_tables(cells)
    pruned = pruning_curves(runs)
    more = [pruning_table(pruned)] if pruned else []
    more += [*comparison_tables(cells), *lost_tables(cells), settings_table(cells)]
    written = [
        _write_table(t, out / "tables", ending) for t in [*results, *more] for ending in FORMATS
    ]
    figures: dict[str, list[tuple[str, str]]] = {}
    for heading, caption, name, figure in make_figures(cells, pruned):
        for ending in ("png", "pdf"):
            written.append(out / "figures" / f"{name}.{ending}")
            save(figure, written[-1])
            figure.set_layout_engine("none")  # the layout of the first is good for the second
        figures.setdefault(heading, []).append((caption, f"figures/{name}"))
    known = facts(runs)
    texts = {
        "report.md": make_document(title, known, results, more, figures),
        "report.html": make_page(title, known, results, more, cells),
    }
    return written + [_write(out / name, text) for name, text in texts.items()]


def make_figures(
    cells: list[Cell], pruned: list[list[Point]]
) -> "Iterator[tuple[str, str, str, Figure]]":
    """Heading, caption, name and figure, one at a time."""
    if pruned:
        caption = "Test accuracy by the share of filters removed"
        yield "Pruned nets", caption, "pruning", plot_pruning(pruned)
    look = looks(rows_of(cells))
    for dataset, net in dict.fromkeys(c.key[:2] for c in cells):
        members = [c for c in cells if c.key[:2] == (dataset, net)]
        caption = f"{title_of(dataset)}, {title_of(net)}"
        if any(run.metrics for c in members for run in c.runs):
            yield (
                "Learning curves",
                caption,
                _file_name("curves", dataset, net),
                plot_curves(members, look),
            )
    for cell in cells:
        run = shown_run(cell)
        if run is None or fraction_of(run):  # the units of a pruned net are much like the whole's
            continue
        caption = _describe(cell, run)
        name = _file_name(*cell.key)
        if figure := plot_units(run):
            scale = shown_scale(run)
            wider = f"; band: the noise, {scale} times as wide" if scale > 1 else ""
            yield "Learned activations", caption + wider, f"units-{name}", figure
        if figure := plot_coefficients(run):
            yield "Coefficients by epoch", caption, f"coefficients-{name}", figure


def _describe(cell: Cell, run: Run) -> str:
    key = cell.key
    parts = [title_of(key.dataset), title_of(key.net), key.row, f"seed {run.config.seed}"]
    shown, layers = len(shown_layers(run)), len(run.metrics[0].get("units", {}))
    parts += [status(run)] if status(run) != "done" else []
    parts += [f"{shown} of {layers} layers"] if shown < layers else []
    return ", ".join(parts)


def _file_name(*parts: str) -> str:
    return re.sub(r"[^\w.+-]", "_", "-".join(part for part in parts if part))


def _write_table(table: Table, folder: Path, ending: str) -> Path:
    return _write(folder / f"{table.name}.{ending}", FORMATS[ending](table))


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return path
