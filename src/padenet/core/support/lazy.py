"""Names of a package that are loaded when they are used, so that its import stays light.

The package's ``__init__.pyi`` says where each name comes from, to type checkers and to us.
"""

import ast
import sys
from importlib import import_module, resources
from importlib.util import find_spec
from typing import Any


class _Names:
    """``__getattr__`` of a package."""

    def __init__(self, package: str):
        stub = resources.files(package).joinpath("__init__.pyi").read_text(encoding="utf-8")
        self.package = package
        self.places = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.parse(stub).body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def __call__(self, name: str) -> Any:
        package = self.package
        if name not in self.places:
            public = name.isidentifier() and not name.startswith("_")
            if public and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = self.places[name]
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

    def list(self) -> list[str]:
        return sorted({*self.places, *vars(sys.modules[self.package])})


def attach(package: str) -> Any:
    """``__getattr__``, ``__dir__`` and ``__all__`` of the package."""
    names = _Names(package)
    return names, names.list, sorted(names.places)
