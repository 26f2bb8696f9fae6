"""Lottery tickets: train, prune, rewind, train again, with ever fewer filters.

Each stage is a run with a directory of its own beside the first: ``pruning.json`` in it says which
filters the net starts without, and which fractions went before. It is made once, from the weights
that the stage before has trained, and holds what the pruned net costs. The first weights of a net
depend on the seed alone, so a pruned run starts with exactly those of the whole net, where its
filters are left.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from padenet import Pruning, apply_pruning, prune
from padenet.lab.data import Dataset, Folder
from padenet.lab.nets import NETS
from padenet.lab.prune.costs import measure_costs
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.labels import stage_label
from padenet.lab.run.execution import Execution
from padenet.lab.run.learning.model import build_net
from padenet.lab.run.ranks import Ranks
from padenet.lab.run.run import Progress, load_once, read_pruning, train
from padenet.torch import percent

FRACTIONS = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
"""Percent of the filters of the whole net, as the paper."""
TIMED = 16  # images in the batch whose inference is timed

Watch = Callable[[Progress], None]


class Stage(NamedTuple):
    """A run of the procedure; ``fraction`` is 0 for the whole net."""

    fraction: float
    config: Config
    path: Path
    result: dict[str, Any]


def lottery(
    config: Config,
    out: str | Path,
    fractions: Sequence[float] = FRACTIONS,
    execution: Execution | None = None,
    *,
    criterion: str = "l1",
    ranks: Ranks | None = None,
    show: Callable[[str], AbstractContextManager[Watch]] | None = None,
) -> Iterator[Stage]:
    """The stages, each as it ends: the whole net, then the net without each of ``fractions``.

    A finished stage is not repeated and an interrupted one is resumed, so the whole procedure
    may be stopped and called again at any time. One that diverges is the last: there are no weights
    to go by.

    Args:
        config: The run of the whole net, in ``out``/its name.
        fractions: Rising percentages of the filters of the whole net.
        execution: Where the stages are computed; at its deadline the procedure stops.
        criterion: As for ``padenet.prune``.
        show: Called with the name of a stage for a watcher of its progress.
    """
    execution, ranks, out = execution or Execution(), ranks or Ranks(), Path(out)
    check_fractions(fractions)
    data = load_once(config.dataset, execution.data_dir)
    check_stages(build_net(config, data), fractions, make_example(config, data), criterion)
    RunDirectory(out / config.name).check_whole()  # the first stage is that of the whole net
    for i in range(len(fractions)):
        check_found(out / stage_config(config, fractions[i]).name, fractions[: i + 1], criterion)
    before: Pruning | None = None
    trained = out / config.name
    for i, fraction in enumerate((0, *fractions)):
        stage = stage_config(config, fraction)
        path = out / stage.name
        if fraction:
            if ranks.leads:
                prepare(stage, path, data, fractions[:i], criterion, before, trained)
            ranks.wait()
            before = read_pruning(RunDirectory(path))
        with show(stage.name) if show else nullcontext(_ignore) as watch:
            result = train(stage, path, execution, ranks=ranks, watch=watch)
        if result is None:
            return
        yield Stage(fraction, stage, path, result)
        if result["status"] != "done":
            return
        trained = path


def stage_config(config: Config, fraction: float) -> Config:
    """The record of a stage: that of the whole net with the fraction in its label."""
    if not fraction:
        return config
    return replace(config, label=stage_label(config.label, fraction))


def check_fractions(fractions: Sequence[float]) -> None:
    rising = all(a < b and f"{a:g}" != f"{b:g}" for a, b in pairwise(fractions))
    if not fractions or not rising or not all(0 < f < 100 for f in fractions):
        raise ValueError(
            f"fractions are {_listed(fractions)}: they must be percentages between 0 and 100 that "
            "rise, by more than their sixth digit, e.g. 10 20 30."
        )


def check_stages(
    net: nn.Module, fractions: Sequence[float], example: Tensor, criterion: str
) -> None:
    """Refuse a net that cannot be pruned, or a fraction by which nothing goes, before training.

    How many filters go does not depend on their weights.
    """
    before: Pruning | None = None
    for fraction in fractions:
        net, before = prune(net, fraction, example=example, criterion=criterion, after=before)


def make_example(config: Config, data: Dataset | Folder, images: int = 2) -> Tensor:
    """Images as the net takes them; what they show does not matter."""
    size = NETS[config.net].size
    draw = torch.Generator().manual_seed(0)
    return torch.randn(images, len(data.mean), size, size, generator=draw)


def prepare(
    config: Config,
    path: Path,
    data: Dataset | Folder,
    steps: Sequence[float],
    criterion: str,
    before: Pruning | None,
    trained: Path,
) -> None:
    """Write ``pruning.json`` of a stage, unless it is there: from the run in ``trained``.

    Args:
        steps: The fractions up to that of the stage.
    """
    directory, whole = RunDirectory(path), build_net(config, data)
    found = read_pruning(directory)
    if found is not None:
        check_nested(found, path, before)
        return
    net: nn.Module = whole if before is None else apply_pruning(whole, before)
    checkpoint = RunDirectory(trained).checkpoint()
    if checkpoint is None:
        raise ValueError(
            f"{trained} has a result and no checkpoint.pt, so its weights are unknown. Put the "
            "file back, or delete the directory to train it again."
        )
    net.load_state_dict(checkpoint["net"])
    example = make_example(config, data)
    net, pruning = prune(net, steps[-1], example=example, criterion=criterion, after=before)
    costs = measure_costs(whole, net, make_example(config, data, TIMED))
    path.mkdir(parents=True, exist_ok=True)
    replace(pruning, costs=costs, steps=tuple(steps)).save(RunDirectory(path).pruning_file)


def check_found(path: Path, steps: Sequence[float], criterion: str) -> None:
    """Refuse a stage that is there and comes from another procedure."""
    directory = RunDirectory(path)
    found = read_pruning(directory)
    if found is None:
        if directory.config_file.exists():
            raise ValueError(
                f"{path} holds a run without pruning.json, so it was not pruned. Choose another "
                "directory (--out) or label."
            )
        return
    if (found.fraction, found.criterion) != (steps[-1], criterion):
        raise ValueError(
            f"pruning.json in {path} is for {percent(found.fraction)} % by {found.criterion!r}, "
            f"not for {percent(steps[-1])} % by {criterion!r}. Choose another directory or label."
        )
    if found.steps and found.steps != tuple(steps):
        raise ValueError(
            f"the net in {path} was pruned by these fractions in turn: {_listed(found.steps)}. "
            f"Now they are: {_listed(steps)}. Choose another directory (--out) or label, or delete "
            f"{path} to make it anew."
        )


def check_nested(found: Pruning, path: Path, before: Pruning | None) -> None:
    """Refuse a stage that does not follow from the one before."""
    for name, kept in (before.filters if before else {}).items():
        if not set(found.filters[name].places) <= set(kept.places):
            raise ValueError(
                f"pruning.json in {path} keeps filters of {name} that the stage before has lost: "
                "it comes from other runs or fractions. Choose another directory or label."
            )


def _listed(fractions: Sequence[float]) -> str:
    return " ".join(map(percent, fractions)) or "none"


def _ignore(progress: Progress) -> None:
    """The watcher of callers that need none."""
