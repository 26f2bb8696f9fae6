"""README and docs: examples run, links and paths lead somewhere, figures are the records'."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tools import tool

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "results").glob("*/report.md")),
]
NEEDS = {"jax.md": ("equinox", "flax", "jax", "optax"), "keras.md": ("jax", "keras")}


def blocks(page):
    """Line and text of each Python block."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield text[: found.start()].count("\n") + 2, found.group(1)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras
@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_examples_run(page, tmp_path, monkeypatch):
    """In order, in one namespace, as a reader would type them."""
    for package in NEEDS.get(page.name, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace = {"__name__": "example"}
    for line, code in blocks(page):
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)


def anchors(page):
    """What GitHub calls the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@pytest.mark.parametrize("page", LINKED, ids=[str(p.relative_to(ROOT)) for p in LINKED])
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^):]*))?\)", text):
        goal = page.parent / target if target else page
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), f"{target}#{anchor}"
    for target in re.findall(r'(?:src|srcset)="([^":]+)"', text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_paths_of_the_repository_exist(page):
    """Such as `src/padenet/torch/nn.py` and `results/table2/runs.jsonl.gz`."""
    folders = "src|native|tests|benchmarks|tools|results|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w/.\-*]+)`", page.read_text(encoding="utf-8")):
        assert list(ROOT.glob(path)), path


def test_the_readme_has_the_epochs_of_the_recorded_runs():
    """The picture's claim, and the numbers beneath it."""
    with tool("learning_curves") as drawing:
        means = drawing.curves()
    passed = {name: drawing.first_above(curve, 91) for name, curve in means.items()}
    others = {passed[name] for name in means.keys() - {"pau", "rpau", drawing.STABILIZED}}
    assert passed["pau"] == passed["rpau"] == 23
    assert passed[drawing.STABILIZED] == 25
    assert min(others - {None}) == 53
    assert max(others - {None}) == 76
    assert None in others
    assert all(curve.max() < 92 for name, curve in means.items() if passed[name] in others)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for claim in ("91 % in epoch 23", "epochs 53 to 76", "epoch 25", "92.72 ± 0.21 %"):
        assert claim in text, claim


@pytest.mark.parametrize(
    ("page", "records"),
    [
        ("README.md", ["cpu.json", "gpu.json"]),
        ("docs/performance.md", ["cpu.json"]),
        ("docs/performance.md", ["gpu.json"]),
    ],
)
def test_measured_tables_are_those_of_the_records(page, records):
    """`benchmarks/table.py --into` was run after the last measurement."""
    paths = [str(ROOT / "benchmarks" / "results" / name) for name in records]
    made = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "table.py"), *paths],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    ).stdout
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [line for line in made.splitlines() if line not in text]
    assert not missing, missing
