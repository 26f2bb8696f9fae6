"""Names of a package that are loaded when they are used, so that its import stays light.

The package's ``__init__.pyi`` says where each name comes from, to type checkers and to us.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module, resources
from importlib.util import find_spec
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of the package."""
    stub = resources.files(package).joinpath("__init__.pyi").read_text(encoding="utf-8")
    places = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def load(name: str) -> Any:
        if name not in places:
            if not name.startswith("_") and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        try:
            value = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(
                f"{package}.{name} needs PyTorch, which is not installed: "
                "pip install 'padenet[torch]', or torch by itself as pytorch.org says."
            ) from error
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(places)
    return load, lambda: sorted({*names, *vars(sys.modules[package])}), names
