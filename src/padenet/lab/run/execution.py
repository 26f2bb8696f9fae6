"""Where and how a run is computed."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how a run is computed; none of it is part of its record.

    Args:
        device: "auto", "cpu", "cuda", "cuda:1".
        data_dir: Directory of the data sets; see ``padenet.lab.data.load``.
        deterministic: Whether to insist on operations that repeat bit for bit on a GPU too.
        graph: Whether a GPU runs steps as CUDA graphs.
        compile: Whether ``torch.compile`` makes the code that trains, with roundings of its own.
        workers: Processes that decode images from folders; by default 4, at most one a core.
        modules: Modules, or Python files, to import before a run, in worker processes too: they
            register data sets and activations of yours.
        deadline: Value of ``time.time()`` after which the run stops at the next epoch.
    """

    device: str = "auto"
    data_dir: str | None = None
    deterministic: bool = False
    graph: bool = True
    compile: bool = False
    workers: int | None = None
    modules: tuple[str, ...] = ()
    deadline: float = math.inf

    def __post_init__(self) -> None:
        if self.compile and self.deterministic:
            raise ValueError(
                "compile and deterministic: the compiler times kernels and takes the fastest, "
                "which is not always the same one. Leave out either."
            )
