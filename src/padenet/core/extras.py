"""Optional packages, imported where they are used and asked for by the name of their extra."""

import difflib
import importlib
from collections.abc import Iterable
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


def unknown(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """The error for a name that is in no table: the name, the nearest one, all of them."""
    names = list(known)
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
    return ValueError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
