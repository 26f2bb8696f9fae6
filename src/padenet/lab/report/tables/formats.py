"""Tables as Markdown, LaTeX (booktabs), CSV and HTML."""

import csv
import io
from collections.abc import Iterable
from html import escape
from itertools import groupby

from padenet.lab.report.tables.table import Column, Entry, Table

TALL = 30  # rows from which a table of the page scrolls
WIDE = 75  # characters from which a LaTeX table is shrunk to the width of the text
LONG = 45  # rows from which it goes over several pages
LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "≥": r"$\ge$",
    "<": "$<$",
    ">": "$>$",
    "•": r"$\bullet$",
    "○": r"$\circ$",
    "’": "'",
    "“": "``",
    "”": "''",
    "é": r"\'e",
}


def to_markdown(table: Table) -> str:
    """The caption, then the table."""
    heads = [f"{c.group}: {c.title}" if c.group else c.title for c in table.columns]
    rules = ["---:" if c.numeric else ":---" for c in table.columns]
    cells = ([_markdown(e) for e in row] for row in table.rows)
    rows = [[markdown(h) for h in heads], rules, *cells]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([table.caption, "", *lines]) + "\n"


def _markdown(entry: Entry) -> str:
    text = f"**{entry.mark} {entry.text}**" if entry.mark else entry.text
    text = f"{text} ({entry.note})" if entry.note else text
    return markdown(text)


def markdown(text: str) -> str:
    """One line in which nothing ends a cell or is a tag."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", r"\<")


def to_latex(table: Table) -> str:
    """Needs the package booktabs; graphicx too if the table is wide, longtable if it is long."""
    letters = "".join("r" if c.numeric else "l" for c in table.columns)
    head = [
        r"\toprule",
        *_latex_groups(table.columns),
        _latex_row(latex(c.title) for c in table.columns),
        r"\midrule",
    ]
    rows = [_latex_row(_latex(e) for e in row) for row in table.rows]
    caption = rf"\caption{{{latex(table.caption)}}}"
    label = rf"\label{{tab:{table.name}}}"
    if len(table.rows) > LONG:
        body = [rf"\begin{{longtable}}{{{letters}}}", caption, label + r" \\", *head, r"\endhead"]
        body += [*rows, r"\bottomrule", r"\end{longtable}"]
        return (
            "\n".join([r"\begingroup\scriptsize\setlength\tabcolsep{4pt}", *body, r"\endgroup"])
            + "\n"
        )
    body = [rf"\begin{{tabular}}{{{letters}}}", *head, *rows, r"\bottomrule", r"\end{tabular}"]
    if _characters(table) > WIDE:
        body = [r"\resizebox{\textwidth}{!}{%", *body, "}"]
    body = [r"\begin{table}", r"\centering", r"\small", caption, label, *body, r"\end{table}"]
    return "\n".join(body) + "\n"


def _characters(table: Table) -> int:
    """About how wide a row is."""
    lines = [[Entry(c.title) for c in table.columns], *table.rows]
    widths = [[len(e.text) + len(e.note) + 3 for e in line] for line in lines]
    return sum(map(max, zip(*widths, strict=True)))


def latex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in text)


def _latex(entry: Entry) -> str:
    text = latex(entry.text)
    if entry.mark:
        text = rf"\textbf{{{latex(entry.mark)}\,{text}}}"
    return rf"{text} {{\scriptsize ({latex(entry.note)})}}" if entry.note else text


def _latex_row(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def _latex_groups(columns: list[Column]) -> list[str]:
    if not any(c.group for c in columns):
        return []
    heads, rules, first = [], [], 1
    for group, members in groupby(columns, lambda c: c.group):
        width = len(list(members))
        heads.append(
            rf"\multicolumn{{{width}}}{{c}}{{{latex(group)}}}" if group else "& " * (width - 1)
        )
        rules += [rf"\cmidrule(lr){{{first}-{first + width - 1}}}"] if group else []
        first += width
    return [_latex_row(heads), " ".join(rules)]


def to_csv(table: Table) -> str:
    """One line a record, numbers in full; an empty field is no value."""
    file = io.StringIO()
    writer = csv.DictWriter(
        file, list(table.records[0]) if table.records else [], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(table.records)
    return file.getvalue()


def to_html(table: Table) -> str:
    """For the page: every heading is a button that sorts, every cell carries its number."""
    groups = "".join(
        f'<th colspan="{len(list(members))}" scope="colgroup">{escape(group)}</th>'
        for group, members in groupby(table.columns, lambda c: c.group)
    )
    groups = f'<tr class="groups">{groups}</tr>' if any(c.group for c in table.columns) else ""
    kinds = _kinds(table.columns)
    heads = "".join(
        f'<th scope="col" aria-sort="none"{kind}><button type="button">{escape(c.title)}'
        "</button></th>"
        for c, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(map(_html, kinds, table.columns, row)) + "</tr>" for row in table.rows
    )
    scroll = "scroll tall" if len(table.rows) > TALL else "scroll"
    return (
        f'<div class="{scroll}" tabindex="0" role="region" aria-label="{escape(table.title)}">\n'
        f'<table id="{escape(table.name)}"><thead>{groups}<tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>\n"
        f'<p class="caption">{escape(table.caption)}</p>\n'
    )


def _kinds(columns: list[Column]) -> list[str]:
    """The class attribute of the cells of each column."""
    kinds = []
    for before, column in zip([columns[0], *columns], columns, strict=False):
        first = column.group != before.group
        names = [("number", column.numeric), ("first", first), ("quiet", column.quiet)]
        text = " ".join(name for name, wanted in names if wanted)
        kinds.append(f' class="{text}"' if text else "")
    return kinds


def _html(kind: str, column: Column, entry: Entry) -> str:
    text = escape(entry.text)
    if entry.mark:
        text = f'<strong><span class="mark">{entry.mark}</span>{text}</strong>'
    if entry.note:
        text += f'<small class="note">{escape(entry.note)}</small>'
    if not column.numeric:
        return f"<td{kind}>{text}</td>"
    value = "" if entry.value is None else f"{entry.value:.8g}"
    return f'<td{kind} data-value="{value}">{text}</td>'
