"""Augmentation and normalisation against loops over pixels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from padenet.lab.data import AUGMENTATIONS, augment, normalise

KINDS = list(AUGMENTATIONS)


def batch(n=6, c=3, h=32, w=32):
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 256, (n, c, h, w), np.uint8))


def crop_flip(image, u):
    c, h, w = image.shape
    padded = np.zeros((c, h + 8, w + 8), np.uint8)
    padded[:, 4:-4, 4:-4] = image
    i, j = int(u[0] * 9), int(u[1] * 9)
    crop = padded[:, i : i + h, j : j + w]
    return crop[:, :, ::-1] if u[2] < 0.5 else crop


unit = st.floats(0, 1, exclude_max=True, width=32)


@given(st.lists(st.tuples(unit, unit, unit), min_size=1, max_size=5))
def test_crop_flip(rows):
    images = batch(len(rows), 2, 7, 5)
    found = augment(images, "crop-flip", draws=torch.tensor(rows))
    for image, u, one in zip(images.numpy(), rows, found.numpy(), strict=True):
        assert np.array_equal(one, crop_flip(image, u))


def test_crop_flip_reaches_every_shift_and_both_sides():
    image = torch.zeros(1, 1, 32, 32, dtype=torch.uint8)
    image[0, 0, 10, 12] = 255
    found = augment(image.expand(5000, -1, -1, -1), "crop-flip", torch.Generator().manual_seed(0))
    places = {(p // 32, p % 32) for p in found.flatten(1).argmax(1).tolist()}
    shifts = range(-4, 5)
    expected = {(10 + dy, x + dx) for dy in shifts for dx in shifts for x in (12, 31 - 12)}
    assert places == expected


def rotate(image, u):
    """Bilinear, in float64, black beyond the border."""
    _, h, w = image.shape
    angle = math.radians(30) * (2 * u - 1)
    out = np.zeros(image.shape)
    for i in range(h):
        for j in range(w):
            x, y = j - (w - 1) / 2, i - (h - 1) / 2
            s = math.cos(angle) * x - math.sin(angle) * y + (w - 1) / 2
            t = math.sin(angle) * x + math.cos(angle) * y + (h - 1) / 2
            for row in (math.floor(t), math.floor(t) + 1):
                for column in (math.floor(s), math.floor(s) + 1):
                    if 0 <= row < h and 0 <= column < w:
                        weight = (1 - abs(t - row)) * (1 - abs(s - column))
                        out[:, i, j] += weight * image[:, row, column]
    return out


@pytest.mark.parametrize("h, w", [(16, 16), (9, 20)])
@pytest.mark.parametrize("u", [0.0, 0.2, 0.75, 0.9999999])
def test_rotate(h, w, u):
    images = batch(2, 2, h, w)
    found = augment(images, "rotate", draws=torch.full((2, 1), u))
    assert found.dtype == torch.uint8
    for image, one in zip(images.numpy(), found.numpy(), strict=True):
        # a coordinate in float32 is off by some 4 roundings of up to 32 pixels: times 255, 0.002
        assert np.abs(one - rotate(image, float(np.float32(u)))).max() <= 0.5 + 0.01


def test_rotate_by_nothing():
    images = batch()
    assert torch.equal(augment(images, "rotate", draws=torch.full((6, 1), 0.5)), images)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_one_result(kind):
    images = batch()
    before = images.clone()

    def run(seed):
        return augment(images, kind, torch.Generator().manual_seed(seed))

    assert torch.equal(run(1), run(1))
    assert torch.equal(run(1), run(2)) == (kind == "none")
    draws = torch.rand(6, AUGMENTATIONS[kind].draws, generator=torch.Generator().manual_seed(1))
    assert torch.equal(augment(images, kind, draws=draws), run(1))
    assert torch.equal(images, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.no_poison
def test_nothing_depends_on_the_values(kind):
    """Fake tensors have no values: a shape or a Python number taken from data would fail."""
    with FakeTensorMode():
        images = torch.zeros(6, 3, 32, 32, dtype=torch.uint8)
        out = normalise(augment(images, kind), (0.1, 0.2, 0.3), (1.0, 2.0, 3.0), torch.bfloat16)
        assert out.shape == (6, 3, 32, 32) and out.dtype == torch.bfloat16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_a_cuda_graph(kind):
    images = batch().cuda()
    draws = torch.rand(6, AUGMENTATIONS[kind].draws, device="cuda")

    def step():
        return normalise(augment(images, kind, draws=draws), (0.1, 0.2, 0.3), (1.0, 2.0, 3.0))

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for _ in range(3):
        draws.uniform_()
        graph.replay()
        assert torch.equal(out, step())


def test_normalise():
    images = batch()
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    m, s = (torch.tensor(v, dtype=torch.float64).view(1, 3, 1, 1) for v in (mean, std))
    expected = (images.double() / 255 - m) / s
    size = (1 + m) / s  # of the terms of the difference, whose roundings remain
    for dtype, roundings in ((torch.float32, 5), (torch.float64, 5), (torch.bfloat16, 1)):
        found = normalise(images, mean, std, dtype)
        assert found.dtype == dtype and found.is_contiguous()
        bound = roundings * torch.finfo(dtype).eps * size
        assert ((found.double() - expected).abs() <= bound).all()
        last = normalise(images, mean, std, dtype, channels_last=True)
        assert last.is_contiguous(memory_format=torch.channels_last) and torch.equal(last, found)
    tensors = normalise(images, torch.tensor(mean), torch.tensor(std))
    assert torch.equal(tensors, normalise(images, mean, std))


def test_normalised_pixels_have_mean_0_and_std_1():
    images = batch(50, 1)
    pixels = images.double() / 255
    found = normalise(images, (float(pixels.mean()),), (float(pixels.std()),), torch.float64)
    assert abs(found.mean()) < 1e-12 and abs(found.std() - 1) < 1e-12


def test_wrong_arguments():
    images = batch()
    with pytest.raises(ValueError, match=r"unknown augmentation 'rotat'. Did you mean 'rotate'\?"):
        augment(images, "rotat")
    with pytest.raises(
        ValueError, match=r"draws has shape \(6, 1\), but 'crop-flip' needs \(6, 3\)"
    ):
        augment(images, "crop-flip", draws=torch.rand(6, 1))
    with pytest.raises(TypeError, match=r"uint8 \(N, C, H, W\), not torch.float32 of shape"):
        augment(images.float(), "none")
    with pytest.raises(TypeError, match=r"not torch.uint8 of shape \(3, 32, 32\)"):
        normalise(images[0], (0.0,), (1.0,))
    with pytest.raises(ValueError, match="1 means or stds for images of 3 channels"):
        normalise(images, (0.0,), (1.0,))
