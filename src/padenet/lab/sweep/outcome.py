"""How a run among others ended."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from padenet.lab.records.config import Config


@dataclass(frozen=True)
class Outcome:
    """The end of a run, with its result where it has one. Unfinished: the deadline came first."""

    config: Config
    state: Literal["done", "diverged", "failed", "unfinished"]
    reason: str = ""
    result: dict[str, Any] | None = None

    @classmethod
    def of(cls, config: Config, result: dict[str, Any] | None) -> "Outcome":
        if result is None:
            return cls(config, "unfinished")
        return cls(config, result["status"], result["reason"], result)

    @classmethod
    def failed(cls, config: Config, error: BaseException) -> "Outcome":
        return cls(config, "failed", f"{type(error).__name__}: {error}")

    def __str__(self) -> str:
        name, result = self.config.name, self.result
        if self.state != "done" or result is None:
            return f"{name}  {self.state}" + (f": {self.reason}" if self.reason else "")
        return (
            f"{name}  test accuracy {result['test_accuracy']:.2f} %  "
            f"best {result['best_accuracy']:.2f} %  {result['seconds']:.1f} s"
        )


OnEnd = Callable[[Outcome], None]


def say_nothing(outcome: Outcome) -> None:
    """The report of callers that need none."""
