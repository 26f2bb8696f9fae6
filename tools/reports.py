"""Every report of the recorded runs: figures, tables and the interactive page.

    python tools/reports.py              # into runs/reports/, a folder each
    python tools/reports.py --tables     # also results/*/report.md, the part that is committed

The committed part is the report without its pictures and its page. Needs the extra ``plots``.
"""

import argparse
import re
from pathlib import Path

from padenet.lab.report import write_report

ROOT = Path(__file__).parents[1]
TITLES = {
    "table2": "Table 2",
    "table3": "Table 3, shortened",
    "stability": "PAU and RPAU with a guard on b_4",
    "pruning": "Lottery tickets of VGG-8",
    "vgg": "VGG on Fashion-MNIST under padenet.stabilize",
}
PAGE = re.compile(r"^.*\[report\.html\]\(report\.html\).*$", re.MULTILINE)


def tables_only(text: str) -> str:
    """A ``report.md`` without the sections that show pictures."""
    text = PAGE.sub("Figures and the interactive page: `make reports`.", text)
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return "".join(s for s in sections if "![" not in s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "reports")
    parser.add_argument("--tables", action="store_true", help="write results/*/report.md too")
    args = parser.parse_args()
    for name, title in TITLES.items():
        made = args.out / name
        write_report(ROOT / "results" / name / "runs.jsonl.gz", made, title=title)
        print(f"wrote {made / 'report.html'}")
        if args.tables:
            text = (made / "report.md").read_text(encoding="utf-8")
            kept = ROOT / "results" / name / "report.md"
            kept.write_text(tables_only(text), encoding="utf-8")


if __name__ == "__main__":
    main()
