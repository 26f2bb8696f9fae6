"""The device of a run, and torch's global switches while it runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from padenet.lab.run.ranks import Ranks


def find_device(name: str, precision: str, ranks: Ranks) -> torch.device:
    """The device of that name, checked; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f"unknown device {name!r}. Use 'auto', 'cpu', 'cuda' or 'cuda:1'."
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={name!r}, but torch sees no GPU here. Use device='cpu'.")
    if device.type not in ("cuda", "cpu"):
        raise ValueError(f"device={name!r}: runs are for 'cpu' and 'cuda'.")
    if precision == "tf32" and device.type == "cpu":
        raise ValueError("precision='tf32' is a format of GPUs. Use 'fp32' on the CPU.")
    if device.type == "cuda":
        index = ranks.local if ranks.world > 1 else device.index or 0
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    return device


@contextmanager
def switches(precision: str, deterministic: bool) -> Iterator[None]:
    """torch's global switches as the run needs them, put back afterwards."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    tf32 = precision == "tf32"
    matmul.allow_tf32 = cudnn.allow_tf32 = tf32
    cudnn.deterministic = deterministic
    cudnn.benchmark = not deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, so it stays
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = before
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
