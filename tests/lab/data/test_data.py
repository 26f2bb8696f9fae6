"""Data sets from files: every layout and format, and what is said of damaged ones."""

import gzip
import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest
import torch

from padenet.lab import data
from padenet.lab.data import DATASETS, Layout, Source
from padenet.lab.data.readers.idx import read_pairs

IDX_FILES = list(DATASETS["mnist"].source.layouts[0].files)


def idx_bytes(array):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def make_idx(folder, rng, *, compressed, train=30, test=20):
    """A small MNIST in ``folder``; the arrays by file."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for name in IDX_FILES:
        n = train if name.startswith("train") else test
        shape = (n, 28, 28) if "images" in name else (n,)
        arrays[name] = rng.integers(0, 256 if "images" in name else 10, shape)
        raw = idx_bytes(arrays[name])
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(raw) if compressed else raw)
    return arrays


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_digits():
    digits = data.load("digits", verify=True)
    assert digits.train_images.shape == (1437, 1, 32, 32)
    assert digits.test_images.shape == (360, 1, 32, 32)
    assert digits.train_images.dtype == torch.uint8 and digits.train_labels.dtype == torch.int64
    assert digits.test_labels.bincount().tolist() == [36] * 10
    assert digits.classes == tuple("0123456789")
    small = [
        images[:, 0, ::4, ::4].double() for images in (digits.train_images, digits.test_images)
    ]
    for images, whole in zip(small, (digits.train_images, digits.test_images), strict=True):
        assert torch.equal(torch.kron(images, torch.ones(4, 4)).byte(), whole[:, 0])
    sixteenths = torch.cat(small) * 16 / 255
    assert (sixteenths - sixteenths.round()).abs().max() <= 0.5 * 16 / 255
    assert sixteenths.round().sum() == 561718  # of scikit-learn's 1,797 images
    pixels = small[0] / 255
    assert digits.mean == pytest.approx((float(pixels.mean()),), rel=1e-12)
    assert digits.std == pytest.approx((float(pixels.std(correction=0)),), rel=1e-12)


def test_digits_labels_belong_to_the_images():
    digits = data.load("digits")
    train, test = digits.train_images.float().flatten(1), digits.test_images.float().flatten(1)
    centres = torch.stack([train[digits.train_labels == k].mean(0) for k in range(10)])
    found = torch.cdist(test, centres).argmin(1)
    assert (found == digits.test_labels).float().mean() > 0.85


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "name, folder",
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_idx(tmp_path, rng, name, folder, compressed):
    arrays = make_idx(tmp_path / folder, rng, compressed=compressed)
    found = data.load(name, tmp_path)
    assert found.name == name and found.classes == DATASETS[name].classes
    for part, images, labels in [
        ("train", found.train_images, found.train_labels),
        ("t10k", found.test_images, found.test_labels),
    ]:
        expected = arrays[f"{part}-images-idx3-ubyte"]
        assert images.dtype == torch.uint8 and labels.dtype == torch.int64
        assert np.array_equal(images[:, 0], np.pad(expected, [(0, 0), (2, 2), (2, 2)]))
        assert labels.tolist() == arrays[f"{part}-labels-idx1-ubyte"].tolist()
    pixels = arrays["train-images-idx3-ubyte"] / 255
    assert found.mean == pytest.approx((pixels.mean(),), rel=1e-12)
    assert found.std == pytest.approx((pixels.std(),), rel=1e-12)


def test_a_complete_folder_goes_before_an_incomplete_one(tmp_path, rng):
    make_idx(tmp_path / "mnist", rng, compressed=True)
    (tmp_path / "mnist" / f"{IDX_FILES[0]}.gz").unlink()
    with pytest.raises(FileNotFoundError, match=f"incomplete: .*mnist has no {IDX_FILES[0]}"):
        data.load("mnist", tmp_path)
    arrays = make_idx(tmp_path / "MNIST/raw", rng, compressed=False)
    assert data.locate("mnist", tmp_path).folder == tmp_path / "MNIST/raw"
    assert data.load("mnist", tmp_path).train_labels.tolist() == arrays[IDX_FILES[1]].tolist()


def test_absent(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        data.load("mnist", tmp_path)
    for text in ("mnist", str(tmp_path / "MNIST/raw"), f"data fetch mnist --data-dir {tmp_path}"):
        assert text in str(error.value)
    with pytest.raises(ValueError, match=r"unknown data set 'minst'. Did you mean 'mnist'\?"):
        data.load("minst")
    with pytest.raises(ValueError, match="comes with the package"):
        data.verify("digits")
    with pytest.raises(ValueError, match=r"image-net\.org"):
        data.verify("imagenet", tmp_path)


def damage(path, change):
    path.write_bytes(change(path.read_bytes()))


def flip_middle(raw):
    half = len(raw) // 2
    return raw[:half] + bytes([raw[half] ^ 255]) + raw[half + 1 :]


@pytest.mark.parametrize(
    "compressed, file, change, message",
    [
        (False, 0, lambda raw: raw[:-5], r"23,531 bytes, expected 23,536 for shape \(30, 28, 28\)"),
        (False, 0, lambda raw: raw + b"x", "23,537 bytes, expected 23,536"),
        (False, 0, lambda raw: raw[:10], "10 bytes, expected a header of 16"),
        (False, 0, lambda raw: b"", "bad magic number 0x, expected 0x00000803"),
        (
            False,
            1,
            lambda raw: b"<htm" + raw[4:],
            "bad magic number 0x3c68746d, expected 0x00000801",
        ),
        (False, 0, lambda raw: idx_bytes(np.zeros((30, 14, 14))), r"images of \(14, 14\)"),
        (False, 1, lambda raw: idx_bytes(np.zeros(29)), "30 images, but .* 29 labels"),
        (False, 3, lambda raw: idx_bytes(np.arange(80, 100)), "label 0 is 80, expected .* 0 to 9"),
        (True, 0, lambda raw: raw[:-100], "truncated or corrupt gzip"),
        (True, 0, flip_middle, "truncated or corrupt gzip"),
        (True, 0, lambda raw: raw[2:], "truncated or corrupt gzip"),
    ],
)
def test_damaged_idx(tmp_path, rng, compressed, file, change, message):
    make_idx(tmp_path / "mnist", rng, compressed=compressed)
    path = tmp_path / "mnist" / (IDX_FILES[file] + ".gz" * compressed)
    damage(path, change)
    with pytest.raises(ValueError, match=message) as error:
        data.load("mnist", tmp_path)
    assert str(path.parent) in str(error.value) and "padenet data fetch mnist" in str(error.value)
    assert path.name in str(error.value)


def test_verify(tmp_path, rng, monkeypatch):
    make_idx(tmp_path / "mnist", rng, compressed=True)
    with pytest.raises(
        ValueError, match=r"train-images.*: md5 is \w{32}, expected 6bbc9ace"
    ) as error:
        data.load("mnist", tmp_path, verify=True)
    assert all(name in str(error.value) for name in IDX_FILES)
    digests = {}
    for name in IDX_FILES:
        raw = gzip.decompress((tmp_path / "mnist" / f"{name}.gz").read_bytes())
        digests[name] = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(raw, 1))
    own = Source((Layout("mnist", read_pairs, digests),), (), {})
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], source=own))
    assert len(data.verify("mnist", tmp_path).files) == 4
    assert len(data.load("mnist", tmp_path, verify=True).train_labels) == 30


def test_data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PADENET_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data.data_home() == tmp_path / ".cache/padenet"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert data.data_home() == tmp_path / ".cache/padenet"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data.data_home() == tmp_path / "cache/padenet"
    monkeypatch.setenv("PADENET_DATA", "~/sets")
    assert data.data_home() == tmp_path / "sets"
    assert data.data_home(tmp_path / "here") == tmp_path / "here"


@pytest.mark.parametrize(
    "name, mean, std",
    [
        ("mnist", (0.1307,), (0.3081,)),
        ("fashion-mnist", (0.2860,), (0.3530,)),
        ("cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    ],
)
def test_the_real_files(name, mean, std):
    try:
        data.locate(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    found = data.load(name, verify=True)
    assert len(found.train_labels) == (50_000 if name == "cifar10" else 60_000)
    assert len(found.test_labels) == 10_000
    assert found.mean == pytest.approx(mean, abs=5e-5)
    assert found.std == pytest.approx(std, abs=5e-5)


def test_no_labels(tmp_path, rng):
    make_idx(tmp_path / "mnist", rng, compressed=False)
    for file, empty in ((2, np.zeros((0, 28, 28))), (3, np.zeros(0))):
        damage(tmp_path / "mnist" / IDX_FILES[file], lambda raw, empty=empty: idx_bytes(empty))
    with pytest.raises(ValueError, match=f"{IDX_FILES[3]} holds no labels"):
        data.load("mnist", tmp_path)
