"""The paper's tables of results: a data set each, rows activations, columns nets."""

from collections.abc import Iterable
from typing import Any

from padenet.lab.report.cells import Cell, Summary, rows_of, shared
from padenet.lab.report.names import MEASURES, dataset_title, row_title, title
from padenet.lab.report.tables.paper import PaperCell, paper_cell
from padenet.lab.report.tables.table import (
    BEST,
    DIGITS,
    SECOND,
    Column,
    Entry,
    Table,
    count,
    digits,
    spread,
)


def results_tables(cells: list[Cell]) -> list[Table]:
    """One a data set; a second one of top-5 accuracies where they were recorded."""
    tables = []
    for dataset in shared(cells, "dataset"):
        members = [c for c in cells if c.key.dataset == dataset]
        for measure in MEASURES:
            if measure == "test_accuracy" or any(c.values(measure) for c in members):
                tables.append(results_table(dataset, members, measure))
    return tables


def results_table(dataset: str, cells: list[Cell], measure: str = "test_accuracy") -> Table:
    """Means and best values over seeds, with the paper's beside them where it has any."""
    rows = rows_of(cells)
    grid = {(c.key.net, c.key.activation, c.key.label): c.summary(measure) for c in cells}
    usual = max(s.runs for s in grid.values())
    columns = [Column("activation", numeric=False)]
    lines = [[Entry(row_title(*row))] for row in rows]
    for net in shared(cells, "net"):
        ours = [grid.get((net, *row)) for row in rows]
        theirs = [None if label else paper_cell(dataset, net, a, measure) for a, label in rows]
        columns += [Column(t, title(net)) for t in ("mean ± std", "best")]
        if any(theirs):
            columns += [Column(t, title(net), quiet=True) for t in ("paper", "paper’s best")]
        for line, added in zip(lines, _entries(ours, usual), strict=True):
            line += added
        for line, paper in zip(lines, theirs if any(theirs) else [], strict=False):
            line += _paper_entries(paper)
    heading = f"{dataset_title(dataset)}: {MEASURES[measure]}"
    return Table(
        name=f"results-{dataset}" + ("" if measure == "test_accuracy" else "-top5"),
        title=heading,
        caption=f"{heading} in percent. {_explanation(grid.values(), usual)}",
        columns=columns,
        rows=lines,
        records=[_record(c, measure) for c in cells],
    )


def mark_best(values: list[float | None]) -> list[str]:
    """• for the greatest and ○ for the next, by the digits shown; equal ones share a mark."""
    shown = [None if v is None else round(v, DIGITS) for v in values]
    known = [v for v in shown if v is not None]
    ranked = sorted(set(known), reverse=True) if len(known) > 1 else []
    marks = dict(zip(ranked, (BEST, SECOND), strict=False))
    return ["" if v is None else marks.get(v, "") for v in shown]


def seeds_note(summary: Summary, usual: int) -> str:
    """What is unusual about the seeds of a cell: lost ones, or another number than elsewhere."""
    if summary.lost:
        parts = [f"{number} {kind}" for kind, number in summary.lost.items()]
        return "; ".join([f"{len(summary.values)}/{count(summary.runs, 'seed')}", *parts])
    return "" if summary.runs == usual else _seeds(summary.runs)


def _seeds(number: int) -> str:
    return "one seed" if number == 1 else f"{number} seeds"


def _entries(ours: list[Summary | None], usual: int) -> list[list[Entry]]:
    means = mark_best([s.mean if s and not s.broke else None for s in ours])
    bests = mark_best([s.best if s and not s.broke else None for s in ours])
    lines = []
    for s, mean, best in zip(ours, means, bests, strict=True):
        if s is None:
            lines.append([Entry(digits(None)), Entry(digits(None))])
            continue
        first = Entry(spread(s.mean, s.std), s.mean, mean, seeds_note(s, usual))
        lines.append([first, Entry(digits(s.best), s.best, best)])
    return lines


def _paper_entries(paper: PaperCell | None) -> list[Entry]:
    mean, std, best = paper or (None, None, None)
    return [Entry(spread(mean, std), mean), Entry(digits(best), best)]


def _explanation(summaries: Iterable[Summary], usual: int) -> str:
    summaries = list(summaries)
    if usual == 1:
        text = "The value of one seed after its last epoch, so there is no std."
    else:
        text = (
            f"Mean ± sample std over {usual} seeds, unless the cell says otherwise; the value of a "
            "seed is that after its last epoch, “best” the greatest of them."
        )
    text += f" {BEST} marks the best of a column, {SECOND} the second best."
    if any(s.broke for s in summaries):
        text += (
            " Seeds that diverged or failed have no value: the mean is over the others, the cell "
            "says how many, and it gets no mark."
        )
    if any(s.lost.get("unfinished") for s in summaries):
        text += " Unfinished runs are counted and not averaged."
    return text


def _record(cell: Cell, measure: str) -> dict[str, Any]:
    s = cell.summary(measure)
    paper = None if cell.key.label else paper_cell(*cell.key[:3], measure)
    return {
        **cell.key._asdict(),
        "measure": measure,
        "runs": s.runs,
        "done": len(s.values),
        **{kind: s.lost.get(kind, 0) for kind in ("diverged", "failed", "unfinished")},
        "mean": s.mean,
        "std": s.std,
        "best": s.best,
        "paper_mean": paper and paper.mean,
        "paper_std": paper and paper.std,
        "paper_best": paper and paper.best,
    }
