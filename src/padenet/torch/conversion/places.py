"""The places of a model where a unit can go, and which of them the caller wants."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor, nn

from padenet.torch.conversion.activations import Activation
from padenet.torch.conversion.rewriting.sites import Site

Choice = str | type[nn.Module] | Callable[[str, type[nn.Module]], bool]
Choices = Choice | Iterable[Choice] | None


@dataclass(eq=False)
class Place:
    """Where a unit goes: ``holder.attr``. ``sites`` are the calls that it serves, if known.

    ``why`` is the reason to leave it which the caller may overrule, ``never`` the one he may not.
    """

    name: str
    holder: nn.Module
    attr: str
    activation: Activation
    like: Tensor | None
    module: nn.Module | None = None
    first: "Place | None" = None  # the slot itself, for a further call of it
    sites: tuple[Site, ...] = ()
    why: str = ""
    never: str = ""


def choose(places: list[Place], only: Choices, skip: Choices, everything: bool) -> list[str]:
    """Why each place is not replaced, "" where it is."""

    def fits(choice: Choice, place: Place) -> bool:
        kind = place.activation.kind.module
        if isinstance(choice, str):
            return fnmatchcase(place.name, choice) or fnmatchcase(place.name, f"{choice}.*")
        return issubclass(kind, choice) if isinstance(choice, type) else choice(place.name, kind)

    def chosen(choices: Choices, label: str) -> set[Place]:
        single = isinstance(choices, str) or callable(choices)
        found: set[Place] = set()
        for choice in [choices] if single else choices or ():  # type: ignore[union-attr]
            hits = {p for p in places if fits(choice, p)}  # type: ignore[arg-type]
            if not hits and (isinstance(choice, (str, type))):
                there = ", ".join(f"{p.name} ({p.activation})" for p in places[:8]) or "none"
                more = ", ..." if len(places) > 8 else ""
                raise ValueError(f"{label}={choice!r} fits no activation. There are: {there}{more}")
            found |= hits
        return found

    wanted = set(places) if only is None else chosen(only, "only")
    unwanted = chosen(skip, "skip")
    asked = everything or only is not None

    def why(place: Place) -> str:
        if place.never:
            return place.never
        if place in unwanted:
            return "skipped"
        if place not in wanted:
            return "not among only"
        return "" if asked else place.why

    return [why(p) for p in places]
