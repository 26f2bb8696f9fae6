"""``History``: the coefficients of a model's units over a training, to keep, plot and animate."""

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from torch import nn

from padenet.core.fitting.samples import check_interval
from padenet.core.forms import FORMS
from padenet.core.support.extras import require
from padenet.core.support.files import replacing
from padenet.torch.nn import PAU, RPAU
from padenet.torch.seeing.drawing import POINTS, add_legend, find_height, plot, values
from padenet.torch.seeing.finding import Units, find_units
from padenet.torch.seeing.style import new_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Kind(NamedTuple):
    """What a unit is besides its coefficients."""

    form: str
    q: float
    groups: int
    channel_dim: int = 1
    alpha: float | None = None  # of RPAU

    @classmethod
    def of(cls, unit: PAU) -> "_Kind":
        alpha = unit.alpha if isinstance(unit, RPAU) else None
        return cls(unit.form, unit.q, unit.groups, unit.channel_dim, alpha)

    def make(self, a: np.ndarray, b: np.ndarray) -> PAU:
        options = {k: v for k, v in self._asdict().items() if v is not None}
        degrees = FORMS[self.form].degrees(a.shape[-1], b.shape[-1])
        pair = (torch.tensor(a), torch.tensor(b))
        unit = PAU if self.alpha is None else RPAU
        return unit(pair, degrees=degrees, dtype=torch.float64, **options)


class History:
    """Coefficients of the units of ``model`` at chosen steps of its training.

        history = padenet.History(model)
        for step, (x, y) in enumerate(loader):
            ...
            if step % 100 == 0:
                history.snapshot(step)
        history.save("units.npz")
        history.animate("units.gif")

    A snapshot copies the coefficients in float64 to main memory: 80 bytes for a unit of degrees
    (5, 4).
    """

    def __init__(self, model: nn.Module | Units):
        self._units: dict[str, PAU] = find_units(model)
        self._kinds = {k: _Kind.of(u) for k, u in self._units.items()}
        self._tables: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {
            name: ([], []) for name in self._units
        }
        self.steps: list[int] = []

    @property
    def names(self) -> list[str]:
        return list(self._kinds)

    def __len__(self) -> int:
        return len(self.steps)

    def snapshot(self, step: int) -> None:
        """Store the coefficients as they are now, as those of ``step``."""
        if not self._units:
            raise RuntimeError("a loaded History has no model to look at. Make History(model).")
        if self.steps and step <= self.steps[-1]:
            raise ValueError(f"step={step} must be greater than the last one, {self.steps[-1]}.")
        for name, unit in self._units.items():
            for table, c in zip(self._tables[name], (unit.a, unit.b), strict=True):
                table.append(c.detach().cpu().double().numpy().copy())
        self.steps.append(int(step))

    def coefficients(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """a and b of one unit, a row for each snapshot."""
        if name not in self._tables:
            raise KeyError(f"no unit {name!r}. Known: {', '.join(self._tables)}.")
        self._need_snapshots()
        a, b = (np.stack(table) for table in self._tables[name])
        return a, b

    def units(self, index: int = -1) -> dict[str, PAU]:
        """The units as they were at one snapshot, each with the first snapshot as its start.

        They are in evaluation, where ``RPAU`` has no noise.
        """
        self._need_snapshots()
        units = {}
        for name, kind in self._kinds.items():
            a, b = self._tables[name]
            unit = units[name] = kind.make(a[0], b[0]).eval()
            with torch.no_grad():
                unit.a.copy_(torch.tensor(a[index]))
                unit.b.copy_(torch.tensor(b[index]))
        return units

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all snapshots to an ``.npz`` file: ``steps``, ``units`` and ``a0``, ``b0``, ..."""
        self._need_snapshots()
        arrays: dict[str, Any] = {}
        for i, name in enumerate(self._kinds):
            arrays[f"a{i}"], arrays[f"b{i}"] = self.coefficients(name)
        kinds = json.dumps([{"name": name, **k._asdict()} for name, k in self._kinds.items()])
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, steps=np.array(self.steps), units=np.array(kinds), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "History":
        """What ``save`` wrote, to look at; it takes no further snapshots."""
        history = cls.__new__(cls)
        history._units, history._kinds, history._tables = {}, {}, {}
        try:
            with np.load(path, allow_pickle=False) as file:
                history.steps = file["steps"].tolist()
                for i, kind in enumerate(json.loads(str(file["units"]))):
                    name = kind.pop("name")
                    history._kinds[name] = _Kind(**kind)
                    history._tables[name] = list(file[f"a{i}"]), list(file[f"b{i}"])
        except (KeyError, TypeError, ValueError, AttributeError, EOFError, BadZipFile) as error:
            raise ValueError(f"{path} is no file that History.save wrote ({error}).") from error
        return history

    def plot(self, index: int = -1, **options: Any) -> "Figure":
        """``padenet.plot`` of one snapshot, with the first as the start."""
        return plot(self.units(index), **options)

    def animate(
        self,
        path: str | os.PathLike[str],
        *,
        interval: tuple[float, float] = (-3.0, 3.0),
        seconds: float = 6.0,
        columns: int | None = None,
    ) -> None:
        """Write a GIF with one frame a snapshot that takes ``seconds`` and then starts again."""
        self._need_snapshots()
        if not os.fspath(path).lower().endswith(".gif"):
            raise ValueError(f"path={os.fspath(path)!r} is no name of a GIF. Let it end in .gif.")
        image = require("PIL.Image", "plots")
        agg = require("matplotlib.backends.backend_agg", "plots")
        limits = self._limits(check_interval(interval))
        figure, axes = new_grid(len(self._kinds), columns)
        canvas, frames = agg.FigureCanvasAgg(figure), []
        # The last snapshot has all that is to be explained: the first has no start beside it.
        add_legend(plot(self.units(-1), axes=axes, interval=interval), axes)
        for i, step in enumerate(self.steps):
            for ax in axes:
                ax.clear()
            plot(self.units(i), axes=axes, interval=interval)
            for ax, (low, high) in zip(axes, limits, strict=True):
                ax.set_ylim(low, high)
            figure.supxlabel(f"step {step}", fontsize=8)
            canvas.draw()
            frames.append(image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
        pause = max(20, round(1000 * seconds / len(frames)))
        options = {"save_all": True, "append_images": frames[1:], "duration": pause, "loop": 0}
        with replacing(path) as temporary:
            frames[0].save(temporary, format="GIF", **options)

    def to_tensorboard(self, writer: Any, tag: str = "units", **options: Any) -> None:
        """Add a figure of the units for every snapshot, ``options`` as for ``padenet.plot``.

        Args:
            writer: A ``SummaryWriter`` of ``torch.utils.tensorboard``, or the directory of one.
            tag: The name of the figures.
        """
        self._need_snapshots()
        if isinstance(writer, (str, os.PathLike)):
            require("tensorboard", "tensorboard")
            module = require("torch.utils.tensorboard", "tensorboard")
            with module.SummaryWriter(os.fspath(writer)) as made:
                self.to_tensorboard(made, tag, **options)
            return
        for i, step in enumerate(self.steps):
            writer.add_figure(tag, self.plot(i, **options), global_step=step)

    def _limits(self, interval: tuple[float, float]) -> list[tuple[float, float]]:
        """Heights of the panels that suit all snapshots."""
        x = np.linspace(*interval, POINTS)
        curves: dict[str, list[np.ndarray]] = {name: [] for name in self._kinds}
        for i in range(len(self)):
            for name, unit in self.units(i).items():
                curves[name].append(values(unit, unit.a, unit.b, x))
        return [find_height(np.stack(all_of_one)) for all_of_one in curves.values()]

    def _need_snapshots(self) -> None:
        if not self.steps:
            raise ValueError("the history is empty. Call history.snapshot(step) while training.")
