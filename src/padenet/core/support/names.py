"""Names that are looked up in tables."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """The error for a name that is in no table: the name, the nearest one, all of them."""
    names = list(known)
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
    return ValueError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
