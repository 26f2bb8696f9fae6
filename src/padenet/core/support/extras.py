"""Optional packages, imported where they are used and asked for by the name of their extra."""

import importlib
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """The module, or an ImportError that says which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{package} is needed for this and cannot be imported ({error}): "
            f"pip install 'padenet[{extra}]', in a checkout '.[{extra}]'."
        ) from error
