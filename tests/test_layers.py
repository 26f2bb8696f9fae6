"""The dependency rule, kept by a test: a module may import only from layers below its own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import padenet

LAYERS = [
    ["spec", "tracing", "extras", "files", "polynomials", "scaled"],
    ["aims", "noise", "trust"],
    ["reference"],
    ["kernels", "exporting"],
    ["coefficients", "functional", "formula", "state", "checkpoints"],
    ["fit"],
    ["nn", "baselines"],
    ["registry", "facts", "units"],
    ["inputs"],
    ["conversion", "optim", "pruning"],
    ["figures", "frozen", "loading"],
    ["history"],
    ["experiments"],
    ["cli"],
]
RANK = {name: i for i, names in enumerate(LAYERS) for name in names}
ROOT = Path(padenet.__file__).parent
FOREIGN = [
    *("matplotlib", "scipy", "triton", "ray", "onnx", "onnxruntime"),
    *("PIL", "rich", "safetensors", "torchvision", "transformers"),
]


def names_used(path):
    """What a file takes from padenet, wherever in the file: modules, or public names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
            yield from (p[1] for p in parts if p[0] == "padenet" and p[1:])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import of {node.module}"
            parts = (node.module or "").split(".")
            if parts[0] == "padenet":
                yield from parts[1:2] or [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "padenet":
            yield from [] if node.attr.startswith("__") else [node.attr]


def test_imports_point_downwards():
    wrong = []
    for path in ROOT.rglob("*.py"):
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if layer in ("__init__", "__main__"):
            continue
        assert layer in RANK, f"{layer}.py has no layer; give it one in LAYERS"
        for name in names_used(path):
            below = name in RANK and RANK[name] < RANK[layer]
            public = name in padenet.__all__ and RANK[layer] >= RANK["experiments"]
            if not (below or name == layer or public):
                wrong.append(f"{path.relative_to(ROOT)} imports padenet.{name}")
    assert not wrong, wrong


def test_import_needs_torch_only():
    code = f"import sys, padenet; print([m for m in {FOREIGN} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
        check=True,
    )
    assert run.stdout.strip() == "[]", run.stdout
