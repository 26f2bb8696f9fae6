"""Reports: from recorded runs to the paper's tables and figures and one interactive page.

    cells.py      runs gathered by data set, net and activation
    pruned.py     pruned runs gathered, by the fraction removed
    facts.py      how many runs, how long, on which machines
    names.py      what things are called, their order and colours
    tables/       the tables, and how they are written
    figures/      the figures
    document.py   report.md
    page/         report.html
    publish.py    a report in the place of the one before

Data flow one way: a report reads records and never changes them, and knows nothing of training.
"""

from pathlib import Path

from padenet.core import replacing
from padenet.lab.records.packing import read_sources
from padenet.lab.records.run import Run
from padenet.lab.report.cells import Cell, collect
from padenet.lab.report.document import make_document
from padenet.lab.report.facts import facts
from padenet.lab.report.figures import make_pictures
from padenet.lab.report.page import make_page
from padenet.lab.report.publish import publishing
from padenet.lab.report.tables import make_tables
from padenet.lab.report.tables.formats import to_csv, to_latex, to_markdown
from padenet.lab.report.tables.table import Table
from padenet.torch import save_figure

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
    results, more = make_tables(cells)
    written = [
        _write_table(t, out / "tables", ending) for t in [*results, *more] for ending in FORMATS
    ]
    figures: dict[str, list[tuple[str, str]]] = {}
    for picture in make_pictures(cells):
        for ending in ("png", "pdf"):
            written.append(out / "figures" / f"{picture.name}.{ending}")
            save_figure(picture.figure, written[-1])
            picture.figure.set_layout_engine("none")  # the first layout is good for the second
        figures.setdefault(picture.heading, []).append((picture.caption, f"figures/{picture.name}"))
    known = facts(runs)
    texts = {
        "report.md": make_document(title, known, results, more, figures),
        "report.html": make_page(title, known, results, more, cells),
    }
    return written + [_write(out / name, text) for name, text in texts.items()]


def _write_table(table: Table, folder: Path, ending: str) -> Path:
    return _write(folder / f"{table.name}.{ending}", FORMATS[ending](table))


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return path
