"""The tables of a report. A new one is a module here and an entry of one of the lists.

table.py                    what a table is
formats.py                  how it is written: Markdown, LaTeX, CSV, HTML
results.py                  the paper's tables of results; paper.py: its own numbers
comparisons.py, compare.py  units against baselines, and the statistics behind
pruning.py                  accuracy and costs of pruned nets
lost.py                     runs without a value
settings.py                 with what the runs were trained
"""

from collections.abc import Callable

from padenet.lab.report.cells import Cell
from padenet.lab.report.tables.comparisons import comparison_tables
from padenet.lab.report.tables.lost import lost_tables
from padenet.lab.report.tables.pruning import pruning_tables
from padenet.lab.report.tables.results import results_tables
from padenet.lab.report.tables.settings import settings_tables
from padenet.lab.report.tables.table import Table

TablesOf = Callable[[list[Cell]], list[Table]]

BEFORE_FIGURES: list[TablesOf] = [results_tables]
AFTER_FIGURES: list[TablesOf] = [pruning_tables, comparison_tables, lost_tables, settings_tables]


def make_tables(cells: list[Cell]) -> tuple[list[Table], list[Table]]:
    """Those that stand before the figures of a report, and those after them."""
    before, after = ([t for f in fs for t in f(cells)] for fs in (BEFORE_FIGURES, AFTER_FIGURES))
    return before, after
