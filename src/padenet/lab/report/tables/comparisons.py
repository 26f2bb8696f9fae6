"""The tables of PAU and RPAU against the baselines."""

from dataclasses import asdict
from typing import Any

from padenet.lab.report.cells import Cell, Key
from padenet.lab.report.names import BASELINES, dataset_title, title
from padenet.lab.report.tables.compare import (
    CONFIDENCE,
    SIGNIFICANT,
    Difference,
    Wins,
    count_decided,
    count_wins,
    paired_differences,
)
from padenet.lab.report.tables.paper import paper_wins
from padenet.lab.report.tables.table import (
    BEST,
    MISSING,
    Column,
    Entry,
    Table,
    chance,
    signed,
    text_columns,
)


def comparison_tables(cells: list[Cell]) -> list[Table]:
    """Wins by means and by tests, and paired differences; none without a unit or a baseline."""
    wins, differences = count_wins(cells), paired_differences(cells)
    if not wins:
        return []
    decided = count_decided(differences)
    return [wins_table(wins), decided_table(decided), differences_table(differences)]


def wins_table(wins: list[Wins]) -> Table:
    """A row a baseline: better / equal / worse for every unit, and the paper's count."""
    columns, rows = _counts(wins, "equal")
    columns += [Column(t, "PAU or RPAU in the paper") for t in ("≥", "<")]
    for row in rows:
        key = next((k for k, v in BASELINES.items() if v == row[0].text), "")
        row += [_whole(n) for n in paper_wins(key) or (None, None)]
    caption = (
        "In how many cells, each a data set and net, the unit’s mean is better than, equal to or "
        "worse than the baseline’s, in the digits shown. A side with diverged or failed seeds is "
        "worse than one without; “open” cells were not compared, because both have some or one "
        "has no finished run. The paper counted PAU and RPAU together, over its own experiments."
    )
    return Table("wins", "Wins and losses", caption, columns, rows, [asdict(w) for w in wins])


def decided_table(wins: list[Wins]) -> Table:
    """The same, counting only what the tests tell apart."""
    columns, rows = _counts(wins, "undecided")
    caption = (
        "In how many cells the unit is better or worse than the baseline by more than chance "
        f"explains: p (Holm) < {SIGNIFICANT} in the table of paired differences. “Undecided” is a "
        "difference that these seeds do not tell from 0, which is no proof of equality; “open” "
        "cells have no test, or a side with diverged or failed seeds, whose survivors are not "
        "comparable."
    )
    records = [{"undecided" if k == "equal" else k: v for k, v in asdict(w).items()} for w in wins]
    return Table("wins-decided", "Wins and losses beyond noise", caption, columns, rows, records)


def _counts(wins: list[Wins], equal: str) -> tuple[list[Column], list[list[Entry]]]:
    """A row a baseline, four columns a unit; ``equal`` is the heading of the second."""
    units = list(dict.fromkeys(w.unit for w in wins))
    found = {(w.unit, w.baseline): w for w in wins}
    titles = {"better": "better", "equal": equal, "worse": "worse", "open": "open"}
    columns = [Column("baseline", numeric=False)]
    columns += [Column(titles[outcome], unit) for unit in units for outcome in titles]
    rows = []
    for baseline in dict.fromkeys(w.baseline for w in wins):
        row = [Entry(baseline)]
        for unit in units:
            w = found.get((unit, baseline))
            row += [_whole(getattr(w, outcome) if w else None) for outcome in titles]
        rows.append(row)
    return columns, rows


def differences_table(differences: list[Difference]) -> Table:
    """A row a pair of unit and baseline on a data set and net."""
    columns = text_columns("data set", "net", "unit", "baseline")
    percent = f"{100 * CONFIDENCE:.0f} %"
    columns += [Column(t) for t in ("seeds", "difference", f"{percent} interval", "p", "p (Holm)")]
    tests = sum(d.p is not None for d in differences)
    tested = (
        f"all {tests} tests" if tests > 1 else "the one test" if tests else "all tests (none here)"
    )
    caption = (
        "Unit minus baseline in percentage points of test accuracy, paired by seed: the mean over "
        f"the seeds that both trained to the end (“4/5”: four of five), its {percent} t-interval "
        f"and the p-value of the two-sided paired t-test, also with Holm’s correction over "
        f"{tested} of this table. {BEST} marks p (Holm) < {SIGNIFICANT}. There is no test "
        "with one seed, or if all differences are the same."
    )
    rows = [_difference_row(d) for d in differences]
    records = [_difference_record(d) for d in differences]
    return Table("differences", "Paired differences", caption, columns, rows, records)


def _difference_row(d: Difference) -> list[Entry]:
    low, high = d.interval or (None, None)
    interval = f"{signed(low)} to {signed(high)}" if d.interval else MISSING
    seeds = f"{d.seeds}/{d.recorded}" if d.seeds < d.recorded else str(d.seeds)
    mark = BEST if d.significant else ""
    return [
        *(Entry(text) for text in _names(d.unit, d.baseline)),
        Entry(seeds, d.seeds, note="one seed" if d.seeds == 1 else ""),
        Entry(signed(d.mean), d.mean, mark),
        Entry(interval, low),
        Entry(chance(d.p), d.p),
        Entry(chance(d.p_holm), d.p_holm),
    ]


def _names(unit: Key, baseline: Key) -> tuple[str, ...]:
    return dataset_title(unit.dataset), title(unit.net), unit.row, baseline.row


def _difference_record(d: Difference) -> dict[str, Any]:
    low, high = d.interval or (None, None)
    return {
        "dataset": d.unit.dataset,
        "net": d.unit.net,
        "unit": d.unit.row,
        "baseline": d.baseline.row,
        "seeds": d.seeds,
        "recorded": d.recorded,
        "difference": d.mean,
        "low": low,
        "high": high,
        "p": d.p,
        "p_holm": d.p_holm,
    }


def _whole(number: int | None) -> Entry:
    return Entry(MISSING if number is None else str(number), number)
