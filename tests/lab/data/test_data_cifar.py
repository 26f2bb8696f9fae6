"""CIFAR-10 from its two formats; pickles that hold anything else."""

import io
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from padenet.lab import data
from padenet.lab.data import DATASETS
from padenet.lab.data.readers import cifar


class Python2Pickler(pickle._Pickler):
    """Writes what Python 2 wrote into CIFAR-10's batches: byte strings, numbers for booleans."""

    def save_string(self, obj):
        raw = obj.encode() if isinstance(obj, str) else obj
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(obj)

    dispatch = pickle._Pickler.dispatch | {bytes: save_string, str: save_string}

    def reducer_override(self, obj):
        if isinstance(obj, np.dtype):
            return np.dtype, (obj.str[1:], 0, 1), (3, "|", None, None, None, -1, -1, 0)
        return NotImplemented


def pickle_2(value):
    file = io.BytesIO()
    Python2Pickler(file, 2).dump(value)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def damage(path, change):
    path.write_bytes(change(path.read_bytes()))


@pytest.fixture
def cifar_home(tmp_path, monkeypatch):
    """Both layouts with the same six batches of 50 images, under home/bin and home/py."""
    monkeypatch.setattr(cifar, "RECORDS", 50)
    rng = np.random.default_rng(0)
    labels, pixels = rng.integers(0, 10, (6, 50)), rng.integers(0, 256, (6, 50, 3072), np.uint8)
    for kind, layout in zip(("bin", "py"), DATASETS["cifar10"].source.layouts, strict=True):
        folder = tmp_path / kind / layout.folder
        folder.mkdir(parents=True)
        for i, name in enumerate(layout.files):
            records = np.concatenate([labels[i, :, None].astype(np.uint8), pixels[i]], 1)
            batch = {"batch_label": name, "labels": labels[i].tolist(), "data": pixels[i]}
            raw = records.tobytes() if kind == "bin" else pickle_2(batch)
            (folder / name).write_bytes(raw)
    return tmp_path, labels, pixels


@pytest.mark.parametrize("kind", ["bin", "py"])
def test_cifar10(cifar_home, kind):
    home, labels, pixels = cifar_home
    found = data.load("cifar10", home / kind)
    assert found.train_images.shape == (250, 3, 32, 32) and found.test_images.shape[0] == 50
    assert np.array_equal(found.train_images, pixels[:5].reshape(-1, 3, 32, 32))
    assert np.array_equal(found.test_images, pixels[5].reshape(-1, 3, 32, 32))
    assert found.train_labels.tolist() == labels[:5].ravel().tolist()
    assert found.test_labels.tolist() == labels[5].tolist()
    channels = pixels[:5].reshape(-1, 3, 1024) / 255
    assert found.mean == pytest.approx(channels.mean((0, 2)), rel=1e-12)
    assert found.std == pytest.approx(channels.std((0, 2)), rel=1e-12)


def test_truncated_binary_batch(cifar_home):
    path = cifar_home[0] / "bin/cifar-10-batches-bin/data_batch_3.bin"
    damage(path, lambda raw: raw[:-1])
    with pytest.raises(ValueError, match=r"data_batch_3.bin: 153,649 bytes, expected 153,650\."):
        data.load("cifar10", cifar_home[0] / "bin")


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    "batch, message",
    [
        (lambda p: {b"labels": [0] * 50, b"data": Touch(p)}, r"asks for .* not allowed"),
        (lambda p: {"labels": [0] * 50}, "KeyError"),
        (lambda p: [1, 2], "TypeError"),
        (lambda p: {"labels": [0] * 50, "data": np.zeros((50, 3072))}, "array of b'f8'"),
        (lambda p: {"labels": [0] * 50, "data": np.zeros((50, 3071), np.uint8)}, r"\(50, 3071\)"),
        (lambda p: {"labels": [0.5] * 50, "data": np.zeros((50, 3072), np.uint8)}, "shapes"),
    ],
)
def test_pickles_hold_a_batch_and_run_nothing(cifar_home, batch, message):
    evil = cifar_home[0] / "touched"
    path = cifar_home[0] / "py/cifar-10-batches-py/test_batch"
    path.write_bytes(pickle_2(batch(evil)))
    with pytest.raises(ValueError, match=message) as error:
        data.load("cifar10", cifar_home[0] / "py")
    assert str(path) in str(error.value) and not evil.exists()


def test_truncated_pickle(cifar_home):
    path = cifar_home[0] / "py/cifar-10-batches-py/data_batch_1"
    damage(path, lambda raw: raw[: len(raw) // 2])
    with pytest.raises(ValueError, match="data_batch_1: not a batch of CIFAR-10"):
        data.load("cifar10", cifar_home[0] / "py")
