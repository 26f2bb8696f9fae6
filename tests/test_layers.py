"""The dependency rule, kept by a test: a module imports only from layers below its own.

``python tests/test_layers.py`` writes the table of layers into CONTRIBUTING.md.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import padenet

LAYERS = [
    ("core", ["noise", "polynomials", "scaled", "support"]),
    ("core", ["forms"]),
    ("core", ["formula", "native"]),
    ("core", ["arrays", "backends"]),
    ("core", ["printing", "starting"]),
    ("core", ["fitting"]),
    ("core", ["facts", "initial"]),
    ("exchange", [""]),
    ("numpy", [""]),
    ("jax", ["native", "noise", "sharding", "units"]),
    ("jax", ["formula", "trust"]),
    ("jax", ["primitives"]),
    ("jax", ["batching"]),
    ("jax", ["functional"]),
    ("jax", ["equinox", "flax", "optim"]),
    ("torch", ["noise", "tracing", "trust"]),
    ("torch", ["reference"]),
    ("torch", ["kernels", "deploy.exporting"]),
    ("torch", ["functional", "saving.checkpoints", "saving.state"]),
    ("torch", ["baselines", "nn"]),
    ("torch", ["registry", "seeing"]),
    ("torch", ["conversion", "optim", "pruning"]),
    ("torch", ["deploy.frozen", "saving.loading"]),
    ("keras", ["arrays"]),
    ("keras", ["tensorflow"]),
    ("keras", ["functional"]),
    ("keras", ["layers"]),
    ("lab", ["records"]),
    ("lab", ["data", "nets"]),
    ("lab", ["run"]),
    ("lab", ["prune", "sweep"]),
    ("lab", ["report"]),
    ("cli", [""]),
]
"""From the bottom up: a part of the package, and its files or folders on one level."""

RANK = {f"{part}.{n}" if n else part: i for i, (part, names) in enumerate(LAYERS) for n in names}
LIBRARY = ("", "core", "torch")
SEALED = {"lab": LIBRARY, "cli": LIBRARY, "keras": ("jax", "numpy", "torch")}
"""Parts that use public names only of others, and of which."""
ROOT = Path(padenet.__file__).parent
CONTRIBUTING = ROOT.parents[1] / "CONTRIBUTING.md"
MARKS = "<!-- layers -->\n", "<!-- end of layers -->\n"
FOREIGN = [
    *(
        "equinox",
        "flax",
        "jax",
        "keras",
        "matplotlib",
        "onnx",
        "onnxruntime",
        "optax",
        "PIL",
        "ray",
        "rich",
        "safetensors",
    ),
    *("scipy", "tensorflow", "torchvision", "transformers", "triton"),
]


def layer_of(module):
    """The entry of RANK that a dotted name below padenet belongs to, or None."""
    parts = module.split(".")
    names = (".".join(parts[:i]) for i in range(len(parts), 0, -1))
    return next((name for name in names if name in RANK), None)


def uses(path):
    """What a file takes from padenet, wherever in the file: (module, name) below padenet.

    ``import padenet`` counts by the names that are asked of it.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("padenet."):
                    yield alias.name.removeprefix("padenet."), None
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import of {node.module}"
            parts = (node.module or "").split(".")
            if parts[0] == "padenet":
                yield from ((".".join(parts[1:]), alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "padenet":
            yield "", node.attr


def sources():
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if layer_of(module):
            yield module, path


def source_of(module, name):
    """The dotted module that the public ``name`` of a package comes from."""
    package = ".".join(filter(None, ("padenet", module)))
    found = getattr(__import__(package, fromlist=["_"]), "__getattr__", None)
    place = found.places.get(name, (package, name))[0] if found else f"{package}.{name}"
    return place.removeprefix("padenet.")


def is_public(module, name):
    package = ".".join(filter(None, ("padenet", module)))
    return (
        module in {p for parts in SEALED.values() for p in parts}
        and name in __import__(package, fromlist=["_"]).__all__
    )


def test_every_file_has_a_layer():
    known = {path for _, path in sources()}
    left = {path for path in set(ROOT.rglob("*.py")) - known if path.name != "__init__.py"}
    assert left == {ROOT / "__main__.py"}, "give them a layer in LAYERS"


@pytest.mark.parametrize("part", list(dict(LAYERS)))
def test_imports_point_downwards(part):
    wrong = []
    for module, path in sources():
        layer = layer_of(module)
        if layer.split(".")[0] != part:
            continue
        for used, name in uses(path):
            if name and name.startswith("__"):
                continue
            target = layer_of(".".join(filter(None, (used, name)))) or layer_of(used)
            if target is None and is_public(used, name):
                target = layer_of(source_of(used, name))
            below = target is not None and (RANK[target] < RANK[layer] or target == layer)
            private = (
                part in SEALED
                and target is not None
                and target.split(".")[0] in SEALED[part]
                and not is_public(used, name)
            )
            if not below or private:
                place = ".".join(filter(None, ("padenet", used)))
                wrong.append(f"{path.relative_to(ROOT)} takes {name} from {place}")
    assert not wrong, "\n".join(wrong)


def loaded_by(code):
    """The packages in memory after ``code``."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
        check=True,
    )
    return {name.split(".")[0] for name in run.stdout.split()}


def test_import_needs_numpy_alone():
    core = "import padenet; padenet.describe('gelu'); padenet.fit(abs, (3, 2), norm='rms')"
    for code in ("import padenet", core.replace("padenet.fit(abs, (3, 2), norm='rms')", "0")):
        assert not loaded_by(code) & {*FOREIGN, "torch"}
    assert not loaded_by(core) & {*FOREIGN, "torch"} - {"scipy"}


def test_a_unit_needs_torch_alone():
    assert not loaded_by("import padenet; padenet.PAU") & set(FOREIGN)


def test_without_torch_the_error_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import padenet; padenet.PAU"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
    )
    assert "padenet.PAU needs PyTorch, which is not installed: pip install 'padenet[torch]'" in (
        run.stderr
    )


def table():
    lines = ["| layer | part | files and folders |", "|---|---|---|"]
    for i, (part, names) in enumerate(LAYERS):
        files = ", ".join(f"`{n}`" for n in names if n) or "all"
        lines.append(f"| {i} | `{part}` | {files} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_layers_is_true():
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert text.split(MARKS[0])[1].split(MARKS[1])[0] == table()


if __name__ == "__main__":
    text = CONTRIBUTING.read_text(encoding="utf-8")
    between = re.escape(MARKS[0]) + ".*" + re.escape(MARKS[1])
    text = re.sub(between, MARKS[0] + table() + MARKS[1], text, flags=re.DOTALL)
    CONTRIBUTING.write_text(text, encoding="utf-8")
