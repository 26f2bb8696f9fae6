"""Every statement of the formula, held to the one file of exact answers in ``conformance/``."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from conformance import FILE, LIMITS, Case, complaint, read
from implementations import IMPLEMENTATIONS, Implementation, plain_refuses
from tools import tool

from padenet.core import noise
from padenet.core.arrays import evaluate
from padenet.core.forms import FORMS, Spec

PAGE = Path(__file__).parent.parent / "src" / "padenet" / "lab" / "report" / "page" / "units.js"
NODE = shutil.which("node")


def pairs(implementation: Implementation) -> list[tuple[Case, str]]:
    """The cases it takes, each in every dtype; if it is slow, one of each kind in each form."""
    cases, _ = read()
    found = [(c, d) for c in cases for d in c.dtypes if implementation.refuses(c, d) is None]
    if not implementation.slow:
        return found
    kinds: dict[tuple[object, ...], list[tuple[Case, str]]] = {}
    for case, dtype in found:
        kinds.setdefault((*case.name.split()[:2], case.x.ndim), []).append((case, dtype))
    return [alike[i % len(alike)] for i, alike in enumerate(kinds.values())]


def check(found: Iterable[tuple[Case, str]], run: Callable, spare: Callable) -> None:
    wrong = []
    for case, dtype in found:
        for name, got in run(case, dtype).items():
            more = spare(case, dtype) if name == "y" else 0.0
            wrong += filter(None, [complaint(case, dtype, name, got, more)])
    assert not wrong, "\n".join([f"{len(wrong)} answers are wrong", *wrong[:8]])


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_case(name):
    implementation = IMPLEMENTATIONS[name]
    if reason := implementation.missing():
        pytest.skip(f"{name}: {reason}")
    found = pairs(implementation)
    assert {case.spec.form for case, _ in found} == set(FORMS)
    check(found, implementation.run, implementation.spare)


def javascript_refuses(case: Case, dtype: str) -> str | None:
    if case.spec.q != 1:
        return "the page shows units with q = 1"
    return plain_refuses(case, dtype)


def test_javascript_of_the_page(request):
    """In Node, or else in a browser."""
    page = Implementation(lambda case, dtype: {}, javascript_refuses)
    found = pairs(page)
    assert {case.spec.form for case, _ in found} == set(FORMS)
    work = [
        [asdict(case.spec.flags), a.tolist(), b.tolist(), case.x[here].tolist()]
        for case, _ in found
        for here, a, b in case.units()
    ]
    each = "([form, a, b, xs]) => xs.map(x => rational(form, a, b, x))"
    source = f"{PAGE.read_text()}\nconst answers = JSON.stringify({json.dumps(work)}.map({each}));"
    if NODE:
        command = [NODE, "-"]
        source += "console.log(answers);"
        text = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
        answers = iter(json.loads(text.stdout))
    else:
        browser = request.getfixturevalue("browser")
        answers = iter(json.loads(browser.execute_script(f"{source} return answers;")))

    def run(case, dtype):
        y = np.zeros(case.x.shape)
        for here, _, _ in case.units():
            y[here] = np.array(next(answers), float)  # NaN is null in JSON, and NaN again here
        return {"y": y}

    check(found, run, page.spare)
    assert next(answers, None) is None


@pytest.mark.parametrize("array", [np.array, torch.tensor], ids=["NumPy", "torch"])
def test_noise_of_keys_and_indices(array):
    _, rows = read()
    assert len(rows) > 20
    for row in rows:
        drawn = noise.draw(array(int(row["key"])), array([row["index"]]), len(row["k"]))
        assert [int(v[0]) for v in drawn] == row["k"]


def test_a_new_form_is_in_the_file():
    cases, _ = read()
    for form in FORMS:
        own = [c for c in cases if c.spec.form == form]
        assert {d for c in own for d in c.dtypes} == set(LIMITS), "run tools/make_conformance.py"
        assert any(c.key is not None for c in own) and len({c.degrees for c in own}) > 12
        assert {len(c.a) for c in own if c.a.ndim == 2} > {1, 2, 3}


def test_the_file_is_what_its_tool_makes():
    pytest.importorskip("gmpy2")
    written = set(FILE.read_text(encoding="utf-8").split("\n"))
    with tool("make_conformance") as make:
        problems = make.problems()
        assert len(problems) == len(read()[0])
        for problem in problems[::13]:
            text = make.written([make.solve(problem)], [])
            assert text.split("\n")[1] in {line.rstrip(",") for line in written}, problem.name


def test_the_example_of_the_readme():
    """Holds an implementation to the file: a right one passes, a wrong one does not."""
    text = (FILE.parent / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    def F(x, a, b, form, q, channel_dim):
        return evaluate(x, a, b, Spec(form, q, channel_dim))

    program = compile(example.replace("conformance/", f"{FILE.parent}/"), "README.md", "exec")
    exec(program, {"F": F})
    with pytest.raises(AssertionError, match="degrees"):
        exec(program, {"F": lambda *args: F(*args) * (1 + 1e-14)})
