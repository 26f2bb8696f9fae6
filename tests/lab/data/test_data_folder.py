"""Folders of images, and the order of an epoch."""

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from padenet.lab import data
from padenet.lab.data import Draw, EpochSampler, ImageFolder, epoch_order
from padenet.lab.data.folder import random_box
from padenet.lab.run.learning.batches import make_batches
from padenet.lab.run.ranks import Ranks

Image = pytest.importorskip("PIL.Image")


def save(path, array, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array, np.uint8)).convert(mode).save(path)


@pytest.fixture
def imagenet(tmp_path):
    """Two classes, twelve noisy images for training and five for test, of various shapes."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("val", 5)):
        for i in range(count):
            shape = (40 + 7 * i, 90 - 3 * i, 3)
            path = tmp_path / "imagenet" / part / ("cat", "dog")[i % 2] / f"{i:02}.png"
            save(path, rng.integers(0, 256, shape))
    (tmp_path / "imagenet/train/cat/notes.txt").write_text("not an image")
    return tmp_path


def test_load_imagenet(imagenet):
    folder = data.load("imagenet", imagenet)
    assert folder.classes == ("cat", "dog") and (len(folder.train), len(folder.test)) == (12, 5)
    assert folder.mean == (0.485, 0.456, 0.406) and folder.std == (0.229, 0.224, 0.225)
    assert folder.train.path(0) == imagenet / "imagenet/train/cat/00.png"
    image, label = folder.train[7]
    assert image.shape == (3, 224, 224) and image.dtype == torch.uint8 and image.is_contiguous()
    assert [folder.train[i][1] for i in range(12)] == [0] * 6 + [1] * 6 and label == 1
    assert len(data.load("imagenet", imagenet / "imagenet").test) == 5
    with pytest.raises(ValueError, match="no published digests"):
        data.load("imagenet", imagenet, verify=True)


def test_the_test_crop_is_resize_256_then_crop_224(tmp_path):
    y, x = np.mgrid[:512, :512]
    pixels = np.stack([x / 2, y / 2, (x * y) % 256], -1)
    save(tmp_path / "one/a.png", pixels)
    image, _ = ImageFolder(tmp_path, train=False)[0]
    small = Image.open(tmp_path / "one/a.png").resize((256, 256), Image.Resampling.BILINEAR)
    expected = np.asarray(small.crop((16, 16, 240, 240))).transpose(2, 0, 1)
    assert np.array_equal(image, expected)


def test_the_test_crop_of_an_oblong_image_is_central(tmp_path):
    pixels = np.zeros((64, 128, 3))
    pixels[4:60, 36:92] = 255
    save(tmp_path / "one/a.png", pixels)
    image, _ = ImageFolder(tmp_path, train=False, size=56)[0]
    assert (image == 255).all()  # 56 = 64 · 224 / 256: exactly the white square, not resized


def test_flips_and_crops(tmp_path):
    """A horizontal ramp: a crop is a rising ramp, a flipped one falls; both occur."""
    save(tmp_path / "one/a.png", np.tile(np.arange(256)[None, :, None], (256, 1, 3)))
    folder = ImageFolder(tmp_path, train=True, size=32)
    rising = []
    for epoch in range(200):
        row = folder[Draw(0, epoch, 0)][0][0, 16].int()
        steps = row.diff()
        assert (steps >= 0).all() or (steps <= 0).all()
        rising.append(bool(row[-1] > row[0]))
    assert 70 < sum(rising) < 130  # 100 ± 4 standard deviations of 7


@given(st.integers(1, 600), st.integers(1, 600), st.integers(0, 1000))
def test_a_box_lies_in_the_image(width, height, seed):
    left, upper, right, lower = random_box(width, height, random.Random(seed))
    assert 0 <= left < right <= width and 0 <= upper < lower <= height


def test_boxes_have_the_areas_and_shapes_asked_for():
    rng = random.Random(0)
    boxes = np.array([random_box(2000, 2000, rng) for _ in range(4000)])
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    area, ratio = w * h / 2000**2, np.log(w / h)
    assert 0.079 < area.min() < 0.09 and 0.97 < area.max() <= 1
    assert np.abs(ratio).max() < math.log(4 / 3) + 0.01
    assert abs(ratio.mean()) < 0.02  # symmetric: 0.17 / sqrt(4000), times 7
    assert abs((boxes[:, 0] + boxes[:, 2]).mean() / 2 - 1000) < 30  # centred on average


def test_an_image_of_extreme_shape_gives_a_central_box():
    assert random_box(1000, 10, random.Random(0)) == pytest.approx((493.3333, 0, 506.6667, 10))
    assert random_box(9, 1000, random.Random(0)) == pytest.approx((0, 494, 9, 506))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on one core
def test_a_batch_depends_on_seed_epoch_and_image_alone(imagenet):
    folder = ImageFolder(imagenet / "imagenet/train", train=True, size=16)

    def epochs(workers, seed=3, which=(0, 1), batch=4):
        sampler = EpochSampler(len(folder), seed=seed)
        loader = DataLoader(
            folder,
            batch,
            sampler=sampler,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        parts = []
        for epoch in which:
            sampler.set_epoch(epoch)
            parts += [torch.cat([images for images, _ in loader])]
        return parts

    first, second = epochs(0)
    assert not torch.equal(first, second)
    for other in (epochs(2), epochs(0, batch=5)):
        assert torch.equal(other[0], first) and torch.equal(other[1], second)
    assert torch.equal(epochs(0, which=(1,))[0], second)  # as after a restart
    assert not torch.equal(epochs(0, seed=4)[0], first)
    torch.manual_seed(1)
    assert torch.equal(folder[Draw(3, 1, 5)][0], folder[Draw(3, 1, 5)][0])
    assert torch.equal(folder[5][0], folder[Draw(0, 0, 5)][0])


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
def test_other_modes_become_rgb(tmp_path, mode):
    name = "a.jpg" if mode == "CMYK" else "a.png"
    save(tmp_path / "one" / name, np.full((30, 30, 3), 255), mode)
    image, _ = ImageFolder(tmp_path, train=False, size=8)[0]
    assert image.shape == (3, 8, 8) and (image >= 250).all()


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"no image"])
def test_a_corrupt_image_is_named(imagenet, damage):
    path = imagenet / "imagenet/val/dog/01.png"
    path.write_bytes(damage(path.read_bytes()))
    folder = ImageFolder(imagenet / "imagenet/val", train=False)
    with pytest.raises(ValueError, match=r"dog/01\.png: cannot be decoded"):
        folder[3]


def test_folders_that_are_not_as_expected(imagenet, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folders train and val .*image-net\.org"):
        data.load("imagenet", tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such folder"):
        ImageFolder(tmp_path / "nowhere", train=True)
    with pytest.raises(ValueError, match=r"cat has no subfolders\. Sort the images"):
        ImageFolder(imagenet / "imagenet/train/cat", train=True)
    (imagenet / "imagenet/val/emu").mkdir()
    with pytest.raises(ValueError, match=r"emu has no images"):
        data.load("imagenet", imagenet)
    save(imagenet / "imagenet/val/emu/a.png", np.zeros((9, 9, 3)))
    with pytest.raises(ValueError, match="train has 2 classes, val 3; only in one of them: emu"):
        data.load("imagenet", imagenet)


@given(st.integers(0, 300), st.integers(1, 9), st.integers(0, 5), st.integers(0, 5))
def test_ranks_share_an_epoch(length, world, seed, epoch):
    def parts(train):
        return [
            epoch_order(length, seed=seed, epoch=epoch, rank=r, world=world, train=train).tolist()
            for r in range(world)
        ]

    train, test = parts(True), parts(False)
    taken = [i for part in train for i in part]
    assert [len(part) for part in train] == [length // world] * world
    assert len(set(taken)) == len(taken) == length // world * world
    assert set(taken) <= set(range(length))
    assert sorted(i for part in test for i in part) == list(range(length))
    assert max(map(len, test)) - min(map(len, test)) <= 1


def test_orders_differ_by_seed_and_epoch():
    orders = [
        tuple(epoch_order(50, seed=seed, epoch=epoch).tolist())
        for seed in range(4)
        for epoch in range(4)
    ]
    assert len(set(orders)) == 16
    assert orders[6] == tuple(epoch_order(50, seed=1, epoch=2).tolist())
    with pytest.raises(ValueError, match="rank=2 must be from 0 to 1, as world=2"):
        epoch_order(5, seed=0, epoch=0, rank=2, world=2)
    with pytest.raises(ValueError, match="seed=-1 and epoch=0 must not be negative"):
        epoch_order(5, seed=-1, epoch=0)


def test_the_sampler_follows_the_order():
    sampler = EpochSampler(11, seed=7, rank=1, world=2)
    sampler.set_epoch(3)
    expected = epoch_order(11, seed=7, epoch=3, rank=1, world=2).tolist()
    assert list(sampler) == [Draw(7, 3, i) for i in expected] and len(sampler) == 5
    test = EpochSampler(11, rank=0, world=2, train=False)
    assert [draw.image for draw in test] == [0, 2, 4, 6, 8, 10] and len(test) == 6


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_worker_cannot_decode_is_one_line(imagenet, workers):
    path = imagenet / "imagenet/val/dog/01.png"
    path.write_bytes(path.read_bytes()[:300])
    _, test = make_batches(
        data.load("imagenet", imagenet),
        torch.device("cpu"),
        seed=0,
        batch_size=2,
        ranks=Ranks(),
        workers=workers,
    )
    with pytest.raises(ValueError, match="cannot be decoded") as error:
        list(test.tickets(0))
    said = str(error.value)
    assert said.startswith(f"{path}: cannot be decoded (") and said.endswith("or delete it.")
    assert "\n" not in said
