"""What a figure of a report comes with."""

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """A figure, the heading that it stands under, and its name as a file."""

    heading: str
    caption: str
    name: str
    figure: "Figure"


def file_name(*parts: str) -> str:
    return re.sub(r"[^\w.+-]", "_", "-".join(part for part in parts if part))
