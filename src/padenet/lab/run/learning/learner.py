"""Net, optimiser and data of a run on one device: what an epoch of training does."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from padenet import PAU, Pruning, Stabilizer, apply_pruning, stabilize
from padenet.lab.data import Dataset, Folder, augment, normalise
from padenet.lab.records.config import Config
from padenet.lab.run.learning.batches import Batches, Ticket, make_batches
from padenet.lab.run.learning.graphs import Graphed
from padenet.lab.run.learning.model import build_net, compiled
from padenet.lab.run.learning.optimizer import load_state, make_optimizers, moments, state_of
from padenet.lab.run.ranks import Ranks
from padenet.torch import find_activations

FAR = 3.0
LEARNED_SHOWN = 16  # activations with at most so many parameters have them in the metrics


class Learner:
    """The state of a run in memory.

    ``train`` and ``test`` are iterators that do a batch a step and yield after each, so that
    several runs can take turns on one device; their sums wait in ``totals``.
    """

    def __init__(
        self,
        config: Config,
        data: Dataset | Folder,
        device: torch.device,
        ranks: Ranks | None = None,
        *,
        pruning: Pruning | None = None,
        graph: bool = True,
        compile: bool = False,
        workers: int | None = None,
    ):
        ranks = ranks or Ranks()
        self.config, self.data, self.device, self.ranks = config, data, device, ranks
        self.train_batches, self.test_batches = make_batches(
            data,
            device,
            seed=config.seed,
            batch_size=config.batch_size,
            ranks=ranks,
            workers=workers,
        )
        self.pruning = pruning
        self.net = build_net(config, data)
        if pruning is not None:  # the first weights of the filters that stay
            self.net = apply_pruning(self.net, pruning)
        if device.type == "cuda":
            self.net.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.units = {k: m for k, m in find_activations(self.net).items() if isinstance(m, PAU)}
        self.penalized: list[Any] = [m for m in self.net.modules() if hasattr(m, "penalty")]
        self.clipped = [p for p in self.net.parameters() if not _among(p, self.units.values())]
        if config.coefficient_floor is not None:
            raise ValueError(
                f"coefficient_floor={config.coefficient_floor}: the guard of older versions is no "
                "more, so that a run with it can be read but not trained. Use stabilize instead."
            )
        self.optimizers = make_optimizers(config, self.net, device)
        self.stabilizer: Stabilizer | None = None
        if config.stabilize is not None and self.units:
            self.stabilizer = stabilize(self.net, self.optimizers, most=config.stabilize)
        self.model: nn.Module = self.net
        if ranks.world > 1:
            self.model = DistributedDataParallel(self.net)
        if compile:
            self.model = compiled(self.model)
        self.mean, self.std = (torch.tensor(v, device=device) for v in (data.mean, data.std))
        self.totals = torch.zeros(4, dtype=torch.float64, device=device)
        alone = device.type == "cuda" and ranks.world == 1
        self.graph = graph and alone and config.optimizer != "muon"  # which waits for the device
        self.graphs: dict[tuple[str, torch.Size], Graphed] = {}

    def train(self, epoch: int) -> Iterator[None]:
        """One epoch, counted from 1."""
        self._set_rates(epoch)
        # Seeded anew each epoch: nothing random outlives it, so a checkpoint holds no generator.
        torch.manual_seed(_seed(self.config.seed, epoch, self.ranks.rank))
        self.model.train()
        tickets = self.train_batches.tickets(epoch)
        yield from self._each("train", self._train_step, tickets, self._tensors)

    def test(self) -> Iterator[None]:
        self.model.eval()
        self.ranks.agree(self.net.buffers())  # each has batch statistics of its own
        tickets = self.test_batches.tickets(0)
        yield from self._each("test", self._test_step, tickets, lambda: [self.totals])

    @torch.no_grad()
    def far_output(self) -> float:
        """The largest output for test images ``FAR`` times as far from 0 as they are."""
        self.net.eval()
        most = torch.zeros((), device=self.device)
        for ticket in self.test_batches.tickets(0):
            images, _ = self.test_batches.fetch(ticket)
            x = normalise(images, self.mean, self.std, channels_last=self.device.type == "cuda")
            with self._autocast():
                most = torch.maximum(most, self.net(FAR * x).float().abs().amax())
        return float(most)

    def settle(self) -> Iterator[None]:
        """Until a GPU has done what was asked of it, without standing in the way of other runs."""
        if self.device.type == "cuda":
            event = torch.cuda.Event()
            event.record()
            while not event.query():
                time.sleep(50e-6)
                yield

    def means(self, prefix: str, *, top5: bool = False) -> dict[str, float]:
        """Loss and accuracies in percent over what ``totals`` counted, of all processes."""
        loss, right, among5, count = self.ranks.total(self.totals.clone()).tolist()
        means = {f"{prefix}_loss": loss / count, f"{prefix}_accuracy": 100 * right / count}
        return means | ({f"{prefix}_top5": 100 * among5 / count} if top5 else {})

    def coefficients(self) -> dict[str, Any]:
        """Learned numbers of the activations, for the metrics."""
        units = {name: {"a": _plain(u.a), "b": _plain(u.b)} for name, u in self.units.items()}
        if units:
            return {"units": units}
        learned = {
            name: [_plain(p) for p in m.parameters()]
            for name, m in find_activations(self.net).items()
            if 0 < sum(p.numel() for p in m.parameters()) <= LEARNED_SHOWN
        }
        return {"learned": learned} if learned else {}

    def state(self) -> dict[str, Any]:
        """All that later epochs depend on: tensors and plain values."""
        held = {"stabilizer": self.stabilizer.state_dict()} if self.stabilizer else {}
        return {
            "net": self.net.state_dict(),
            "optimizer": state_of(self.optimizers),
            **held,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self._check_moments(state["optimizer"], trained=state["epoch"] > 0)
        load_state(self.optimizers, state["optimizer"])
        if self.stabilizer is not None:
            self.stabilizer.load_state_dict(state["stabilizer"])

    def _check_moments(self, found: dict[int, dict[str, Any]], *, trained: bool) -> None:
        """Refuse what torch's optimisers would take: no state, or that of another net."""
        kept = [
            (p, moments(o) if trained else ())
            for o in self.optimizers
            for g in o.param_groups
            for p in g["params"]
        ]
        wanted = {i: dict.fromkeys(n, p.shape) for i, (p, n) in enumerate(kept) if n}
        given = {i: {n: v[n].shape for n in wanted.get(i, ())} for i, v in found.items()}
        if given != wanted:
            raise ValueError(f"the state of {self.config.optimizer} is not that of the net")

    def _each(
        self,
        name: str,
        step: Callable[[Ticket], None],
        tickets: Iterator[Ticket],
        changed: Callable[[], list[Tensor]],
    ) -> Iterator[None]:
        self.totals.zero_()
        for ticket in tickets:
            if self.graph:
                key = name, ticket[0].shape  # the last batch of a test may be smaller
                if key not in self.graphs:
                    self.graphs[key] = Graphed(step, ticket, changed)
                self.graphs[key](ticket)
            else:
                step(ticket)
            yield

    def _train_step(self, ticket: Ticket) -> None:
        logits, labels = self._forward(self.model, self.train_batches, ticket, self.config.augment)
        loss = F.cross_entropy(logits, labels)
        self._count(logits.detach(), labels, loss.detach())
        sum((m.penalty() for m in self.penalized), loss).backward()
        self._clip()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()

    @torch.no_grad()
    def _test_step(self, ticket: Ticket) -> None:
        logits, labels = self._forward(self.net, self.test_batches, ticket, "none")
        self._count(logits, labels, F.cross_entropy(logits, labels))
        self._count_among5(logits, labels)

    def _forward(
        self, model: nn.Module, batches: Batches, ticket: Ticket, kind: str
    ) -> tuple[Tensor, Tensor]:
        images, labels = batches.fetch(ticket)
        on_gpu = self.device.type == "cuda"
        images = augment(images, kind)
        x = normalise(images, self.mean, self.std, channels_last=on_gpu)
        with self._autocast():
            logits = model(x)
        return logits.float(), labels

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def _count(self, logits: Tensor, labels: Tensor, loss: Tensor) -> None:
        """In few operations, each of them a kernel: a small net would feel more."""
        loss_sum, right, _, count = self.totals
        loss_sum.add_(loss, alpha=len(labels))
        right.add_((logits.argmax(1) == labels).sum())
        count.add_(len(labels))

    def _count_among5(self, logits: Tensor, labels: Tensor) -> None:
        among = logits.topk(min(5, logits.shape[1])).indices
        self.totals[2].add_((among == labels[:, None]).sum())

    def _clip(self) -> None:
        config = self.config
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.clipped, config.clip_norm)
        if config.coefficient_clip is not None:
            for unit in self.units.values():
                nn.utils.clip_grad_norm_([unit.a, unit.b], config.coefficient_clip)

    def rate(self) -> float:
        """That of the weights, now."""
        return float(self._groups()[0]["lr"])

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _set_rates(self, epoch: int) -> None:
        factor = self.config.lr_decay ** ((epoch - 1) // self.config.lr_every)
        for group in self._groups():
            rate = group["start"] * (factor if group["decays"] else 1.0)
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # a CUDA graph reads it there
            else:
                group["lr"] = rate

    def _tensors(self) -> list[Tensor]:
        """What a step changes, for the warm-up of a graph to put back."""
        states = [s for o in self.optimizers for s in o.state.values()]
        values = [v for s in states for v in s.values() if isinstance(v, Tensor)]
        held = self.stabilizer.tensors() if self.stabilizer else []
        return [*self.net.parameters(), *self.net.buffers(), self.totals, *values, *held]


def _among(parameter: Tensor, modules: Any) -> bool:
    return any(parameter is p for m in modules for p in m.parameters(recurse=False))


def _seed(*parts: int) -> int:
    """One seed of several, well mixed."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def _plain(values: Tensor) -> Any:
    """Nested lists with the nine digits that tell one float32 from the next."""
    if values.ndim:
        return [_plain(v) for v in values.detach().cpu()]
    number = float(f"{values.item():.9g}")
    return number if np.isfinite(number) else None
