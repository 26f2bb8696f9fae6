"""``report.md``: the tables and figures in one text."""

from padenet.lab.report.tables.formats import markdown, to_markdown
from padenet.lab.report.tables.table import Table


def make_document(
    title: str,
    facts: dict[str, str],
    results: list[Table],
    more: list[Table],
    figures: dict[str, list[tuple[str, str]]],
) -> str:
    """``figures`` are, by heading, pairs of a caption and the path of a picture."""
    lines = [f"# {markdown(title)}", "", f"{facts['runs']}. {facts['time']}."]
    lines += ["Tables to sort, curves and units to play with: [report.html](report.html).", ""]
    for table in results:
        lines += [f"## {table.title}", "", to_markdown(table)]
    for heading, pictures in figures.items():
        lines += [f"## {heading}", ""]
        for caption, path in pictures:
            lines += [f"{caption} ([PDF]({path}.pdf))", "", f"![{caption}]({path}.png)", ""]
    for table in more:
        lines += [f"## {table.title}", "", to_markdown(table)]
    lines += ["## How it was made", "", "| | |", "| :--- | :--- |"]
    lines += [f"| {key} | {markdown(value)} |" for key, value in facts.items()]
    return "\n".join(lines) + "\n"
