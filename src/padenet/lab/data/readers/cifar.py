"""CIFAR-10's formats: the binary batches, and the pickles of the Python version.

A batch has 10,000 records, each of one label and 3 × 32 × 32 bytes of pixels. The pickles are
untrusted input: they may build a dict with an array of bytes in it and nothing else.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from padenet.lab.data.local import content
from padenet.lab.data.readers.idx import check_labels
from padenet.lab.data.sources import Arrays, LocalCopy

RECORDS = 10_000
PIXELS = 3 * 32 * 32

Bytes = npt.NDArray[np.uint8]
Batch = tuple[npt.NDArray[Any], Bytes]  # labels (RECORDS,), pixels (RECORDS, PIXELS)


def read_binary(path: Path) -> Batch:
    data = content(path)
    size = RECORDS * (1 + PIXELS)
    if len(data) != size:
        raise ValueError(f"{path}: {len(data):,} bytes, expected {size:,}.")
    records = np.frombuffer(data, np.uint8).reshape(RECORDS, 1 + PIXELS)
    return records[:, 0], records[:, 1:]


def read_pickle(path: Path) -> Batch:
    try:
        batch = _BatchUnpickler(io.BytesIO(content(path)), encoding="bytes").load()
        labels, pixels = np.array(batch[b"labels"]), batch[b"data"]
        shapes = labels.shape, pixels.shape
    except Exception as error:  # a damaged pickle can fail in any way
        raise ValueError(f"{path}: not a batch of CIFAR-10 ({error!r}).") from error
    expected = (RECORDS,), (RECORDS, PIXELS)
    if shapes != expected or labels.dtype.kind != "i" or pixels.dtype != np.uint8:
        raise ValueError(f"{path}: labels and data have shapes {shapes}, expected {expected}.")
    return labels, pixels


def read_binary_batches(copy: LocalCopy) -> tuple[Arrays, Arrays]:
    """(images (N, 3, 32, 32), labels (N,)) for training, and for test: the last file."""
    return _read(copy, read_binary)


def read_pickled_batches(copy: LocalCopy) -> tuple[Arrays, Arrays]:
    """The same of the Python version."""
    return _read(copy, read_pickle)


def _read(copy: LocalCopy, read: Callable[[Path], Batch]) -> tuple[Arrays, Arrays]:
    paths = [copy.files[name] for name in copy.layout.files]
    return _join(paths[:-1], read), _join(paths[-1:], read)


def _join(paths: list[Path], read: Callable[[Path], Batch]) -> Arrays:
    images = np.empty((len(paths), RECORDS, PIXELS), np.uint8)
    labels = np.empty((len(paths), RECORDS), np.int64)
    for i, path in enumerate(paths):
        labels[i], images[i] = read(path)
        check_labels(labels[i], path)
    return images.reshape(-1, 3, 32, 32), labels.reshape(-1)


def _byte_type(code: Any, align: Any = False, copy: Any = True) -> np.dtype[np.uint8]:
    if code not in (b"u1", "u1"):
        raise pickle.UnpicklingError(f"an array of {code!r}, expected unsigned bytes")
    return np.dtype("u1", copy=True)


_reconstruct = np.zeros(0).__reduce__()[0]  # NumPy's own, whose module has been renamed
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _byte_type,
}


class _BatchUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not allowed")
        return ALLOWED[module, name]
