"""What the records of runs must look like: a function returns what it was given, or says why not.

Further fields of a record are left alone.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from padenet.core import FORMS
from padenet.lab.records.config import Config
from padenet.lab.records.run import Metrics

STATUS = ("done", "diverged", "failed")
# Of a line or a result, where they are there; a loss that is not finite is null.
NUMBERS = (
    "lr",
    "train_loss",
    "test_loss",
    "seconds",
    "images_per_second",
    "far_output",
    "parameters",
)
PERCENTAGES = ("train_accuracy", "test_accuracy", "test_top5", "best_accuracy")
COSTS = ("parameters", "multiplications", "bytes", "milliseconds")


def expect(found: Any, names: Iterable[str] = ()) -> dict[str, Any]:
    """An object that has at least these names."""
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, not an object")
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"without {', '.join(missing)}")
    return found


def expect_failure(found: Any) -> dict[str, Any]:
    """failure.json."""
    _text(expect(found, ("reason",)), "reason")
    return found  # type: ignore[no-any-return]


def expect_line(found: Any) -> Metrics:
    """A line of metrics.jsonl."""
    line = expect(found, ("epoch", "test_accuracy", "seconds"))
    _count(line, "epoch")
    _numbers(line, NUMBERS, needed=("seconds",))
    _percentages(line, ("test_accuracy",))
    _shapes(line)
    return line


def expect_result(found: Any) -> dict[str, Any]:
    """result.json."""
    names = ("status", "reason", "epochs", "test_accuracy", "best_accuracy", "seconds")
    result = expect(found, names)
    if result["status"] not in STATUS:
        raise ValueError(f"status is {result['status']!r}, not done, diverged or failed")
    _text(result, "reason")
    _count(result, "epochs")
    done = ("test_accuracy", "best_accuracy") if result["status"] == "done" else ()
    _numbers(result, NUMBERS, needed=("seconds",))
    _percentages(result, done)
    machine = result.get("machine", {})
    if not isinstance(machine, dict) or any(isinstance(v, dict | list) for v in machine.values()):
        raise ValueError(f"machine is {machine!r}, not an object of plain values")
    if "pruning" in result:
        expect_pruning(result["pruning"])
    return result


def expect_pruning(found: Any) -> dict[str, Any]:
    """pruning.json, or what a result says of it: the share removed, and costs where it has them."""
    if not isinstance(found, dict) or not _is_number(found.get("fraction")):
        raise ValueError(f"pruning is {str(found)[:60]!r}, not an object with a number fraction")
    _numbers(found, (*COSTS, *(f"whole_{name}" for name in COSTS)))
    return found


def expect_run(config: Config, metrics: list[Metrics], result: dict[str, Any] | None) -> None:
    """The parts of a run belong together: no epoch is missing, and units are the same in all."""
    for before, after in pairwise(metrics):
        if after["epoch"] != before["epoch"] + 1:
            raise ValueError(f"epoch {before['epoch']} is followed by epoch {after['epoch']}")
    last = metrics[-1]["epoch"] if metrics else None
    if result is not None and result["status"] != "failed" and last != result["epochs"]:
        ends = "there are none" if last is None else f"they end with epoch {last}"
        raise ValueError(f"the result is of epoch {result['epochs']}, but {ends}")
    shapes = [(line["epoch"], _shapes(line)) for line in metrics if line.get("units")]
    for epoch, shape in shapes[1:]:
        if shape != shapes[0][1]:
            first = shapes[0][0]
            raise ValueError(f"the units of epoch {epoch} are others than those of epoch {first}")
    least = int(FORMS[config.form].constant)
    for _, shape in shapes[:1]:
        for name, (a, b) in shape.items():
            if a[-1] < 1 or b[-1] < least:
                raise ValueError(f"unit {name} has {a[-1]} coefficients a and {b[-1]} of b")


def _shapes(line: Metrics) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of the coefficients a and b of every unit."""
    units = line.get("units", {})
    if not isinstance(units, dict):
        raise ValueError(f"units is a {type(units).__name__}, not an object")
    found = {}
    for name, unit in units.items():
        try:
            a, b = (_shape(expect(unit, ("a", "b"))[k]) for k in ("a", "b"))
        except ValueError as error:
            raise ValueError(f"unit {name!r} is {error}") from None
        if a[:-1] != b[:-1]:
            raise ValueError(f"unit {name!r} has a of shape {a} and b of shape {b}")
        found[name] = a, b
    return found


def _shape(values: Any) -> tuple[int, ...]:
    """Of numbers, or of rows of as many numbers; null is one that was not finite."""
    if isinstance(values, list) and values and all(isinstance(v, list) for v in values):
        rows = {_shape(v) for v in values}
        if len(rows) == 1 and len(row := rows.pop()) == 1:
            return len(values), *row
    elif isinstance(values, list) and all(v is None or _is_number(v) for v in values):
        return (len(values),)
    raise ValueError("without a list of numbers for a and b, or rows of as many")


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return abs(value) < 2**63
    return isinstance(value, float)


def _numbers(record: dict[str, Any], names: Iterable[str], needed: Iterable[str] = ()) -> None:
    for name in names:
        value = record.get(name)
        if not (_is_number(value) or (value is None and name not in needed)):
            raise ValueError(f"{name} is {value!r}, not a number")


def _percentages(record: dict[str, Any], needed: Iterable[str]) -> None:
    for name in PERCENTAGES:
        value = record.get(name)
        if value is None and name not in needed:
            continue
        if value is None or not (_is_number(value) and 0 <= value <= 100):
            raise ValueError(f"{name} is {value!r}, not a percentage")


def _count(record: dict[str, Any], name: str) -> None:
    value = record[name]
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}, not a whole number from 0 on")


def _text(record: dict[str, Any], name: str) -> None:
    if not isinstance(value := record[name], str):
        raise ValueError(f"{name} is {value!r}, not a text")
