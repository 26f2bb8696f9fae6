"""Fields of a record: each states once its default, its help, its values and which runs read it.

``option`` is the right-hand side of a field of a dataclass, and ``fields_of`` lists what the fields
say: for the check of a value, for the command line, for JSON, for documentation.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cache
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from padenet.core import unknown

INFINITY = float("inf")  # excluded by every range, as is nan
TRUTH = {"true": True, "false": False}


class Range(NamedTuple):
    """The numbers that a field may hold, and what they are in words."""

    fits: Callable[[float], bool]
    words: str

    def or_none(self, meaning: str) -> "Range":
        return Range(self.fits, f"{self.words}, or None {meaning}")


class Name(NamedTuple):
    """A part of a directory's name: letters, digits and these signs."""

    signs: str
    may_be_empty: bool = False


class Only(NamedTuple):
    """The runs that read a field: those with one of these values of another field."""

    field: str
    values: tuple[str, ...]


ABOVE_0 = Range(lambda v: 0 < v < INFINITY, "a finite number above 0")
FROM_0 = Range(lambda v: 0 <= v < INFINITY, "a finite number, 0 or more")
COUNT = Range(lambda v: v >= 1, "at least 1")

Values = Range | Name | Collection[str] | Callable[[str], object] | None


class _Said(NamedTuple):
    help: str
    values: Values
    only: Only | None


def option(default: Any, help: str, values: Values = None, *, only: Only | None = None) -> Any:
    """A field of a record. Its type says what it holds; ``Literal`` lists what it may be.

    Args:
        help: For the command line, which has no flag for a field without it.
        values: The range of a number, the signs of a name, the known texts, or a function that
            raises ``ValueError`` for an unknown one.
        only: The runs that read the field; by default all.
    """
    return field(default=default, metadata={"option": _Said(help, values, only)})


@dataclass(frozen=True)
class Field:
    """What a field of a record says of itself."""

    name: str
    default: Any
    hint: Any
    help: str
    values: Values
    only: Only | None

    @property
    def kind(self) -> type:
        """bool, int, float or str."""
        kinds = [k for k in (*get_args(self.hint), self.hint) if k in (bool, int, float)]
        return kinds[0] if kinds else str

    @property
    def optional(self) -> bool:
        return NoneType in get_args(self.hint)

    def check(self, value: Any) -> None:
        """Refuse a value that the field cannot have."""
        if value is None and self.optional:
            return
        (self._check_text if self.kind is str else self._check_number)(value)

    def reader(self) -> Callable[[str], Any]:
        """A function of a text on the command line; argparse names it in its errors."""
        kind = self.kind

        def read(text: str) -> Any:
            if self.optional and text.lower() == "none":
                return None
            if kind is bool:
                if text.lower() not in TRUTH:
                    raise ValueError(f"{text!r} is neither true nor false.")
                return TRUTH[text.lower()]
            return kind(text)

        read.__name__ = kind.__name__
        return read

    def _check_number(self, value: Any) -> None:
        name, kind = self.name, self.kind
        if kind is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{name}={value!r} must be true or false.")
            return
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            words = "whole number" if kind is int else "number"
            raise ValueError(f"{name}={value!r} must be a {words}.")
        if isinstance(self.values, Range) and not self.values.fits(value):
            raise ValueError(f"{name}={value} must be {self.values.words}.")

    def _check_text(self, value: Any) -> None:
        name, values = self.name, self.values
        if not isinstance(value, str):
            raise ValueError(f"{name}={value!r} must be a text.")
        if get_origin(self.hint) is Literal:
            values = get_args(self.hint)
        if isinstance(values, Name):
            _check_name(name, value, values)
        elif callable(values):
            values(value)
        elif values is not None and not isinstance(values, Range) and value not in values:
            raise unknown(name, value, values)


def _check_name(name: str, value: str, values: Name) -> None:
    if not value and not values.may_be_empty:
        raise ValueError(f"{name}={value!r} must not be empty: it is part of the run's name.")
    if not all(c.isalnum() or c in values.signs for c in value):
        signs = " ".join(values.signs)
        raise ValueError(f"{name}={value!r} may hold letters, digits and {signs} only.")


def fields_of(record: type) -> dict[str, Field]:
    """Its fields by name, in order."""
    return _fields_of(record)


@cache
def _fields_of(record: type) -> dict[str, Field]:
    hints = get_type_hints(record)
    return {
        f.name: Field(f.name, f.default, hints[f.name], *f.metadata["option"])
        for f in fields(record)
    }
