"""What ``convert`` replaced and what it left."""

from dataclasses import dataclass
from typing import NamedTuple


class Replaced(NamedTuple):
    """``name`` is the unit's, ``rms`` the error of its start over [-3, 3]."""

    name: str
    was: str
    start: str
    rms: float


class Left(NamedTuple):
    name: str
    why: str


@dataclass(frozen=True)
class Report:
    """What ``convert`` did; ``print`` it for a table."""

    replaced: tuple[Replaced, ...]
    left: tuple[Left, ...]

    def __str__(self) -> str:
        rows = [("unit", "was", "starts as", "rms error")]
        rows += [(r.name or "(model)", r.was, r.start, f"{r.rms:.1e}") for r in self.replaced]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{len(self.replaced)} replaced, {len(self.left)} left"]
        for row in rows if self.replaced else []:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  " + "  ".join(cells).rstrip())
        whys: dict[str, list[str]] = {}
        for left in self.left:
            whys.setdefault(left.why, []).append(left.name or "(model)")
        for why, names in whys.items():
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            lines.append(f"  left: {', '.join(names[:4])}{more}: {why}")
        return "\n".join(lines)
