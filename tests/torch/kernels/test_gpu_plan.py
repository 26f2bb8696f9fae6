"""How a tensor is cut for the GPU, and where the kernels compile: neither runs any."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import ROOT

from padenet.torch.kernels import gpu
from padenet.torch.kernels.gpu import plan

pytest.importorskip("triton")
F32, BF16 = torch.float32, torch.bfloat16


def test_an_old_triton_is_refused(monkeypatch):
    gpu._find.cache_clear()
    try:
        monkeypatch.setattr("triton.__version__", "3.4.0")
        assert "Triton 3.4.0 is too old, the kernels need 3.5" in gpu.missing()
    finally:
        gpu._find.cache_clear()


def test_an_old_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(gpu, "_on_nvidia", lambda: True)
    monkeypatch.setattr(gpu, "_capability", lambda device: (7, 5))
    assert "capability 7.5, the kernels need 8.0" in gpu.refuses_device(torch.device("cuda", 0))
    assert not gpu._early.__wrapped__(0)


@pytest.mark.parametrize("capability, level", [((8, 0), 1), ((8, 6), 2), ((9, 0), 2), ((12, 0), 2)])
def test_what_a_gpu_can_do(capability, level, monkeypatch):
    monkeypatch.setattr(gpu, "_capability", lambda device: capability)
    monkeypatch.setattr(gpu, "_on_nvidia", lambda: True)
    assert gpu._nvidia.__wrapped__(0) == level
    monkeypatch.setattr(gpu, "_on_nvidia", lambda: False)
    assert gpu._nvidia.__wrapped__(0) == 0


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("kernel", ["forward", "backward"])
def test_offsets_up_to_a_tile_beyond_the_end_fit(kernel, dtype):
    for numel in (2**31 - 1, 2**31 - 511, plan._BIG, plan._BIG - 1, 2**31 - 2**13):
        p = plan.plan_for(kernel, torch.device("cpu"), dtype, torch.Size([numel]), (), 1, 0, False)
        rows, width, big = p.numbers.rows, p.numbers.width, p.shape.BIG
        assert big or (rows + 1) * width < 2**31


@settings(max_examples=300)
@given(
    st.sampled_from([(1,), (7, 64), (33, 96, 7), (5, 3, 14, 14), (1000,), (300_000,), (2, 5000)]),
    st.sampled_from(["forward", "backward"]),
    st.sampled_from([F32, BF16]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 4, 13, 1056]),
    st.sampled_from([None, (1, 0), (3, 0), (3, 1), (7, 5), (7, 7)]),
)
def test_every_tile_belongs_to_one_program(shape, kernel, dtype, grouped, noise, at_once, waves):
    groups = shape[1] if grouped and len(shape) > 1 else 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_at_once", lambda registers, device: at_once)
        if waves:
            patch.setattr(plan, "_waves", lambda length, most, *case: waves)
        plan.plan_for.cache_clear()
        cpu = torch.device("cpu")
        p = plan.plan_for(kernel, cpu, dtype, torch.Size(shape), (), groups, 1, noise)
    plan.plan_for.cache_clear()
    rows, steps, skew, abreast, down, over, _, width, span, *_ = p.numbers
    _, layout, tile_rows, columns, parts, unit, *_ = p.shape
    across, units = 1, 1
    if layout == plan.RUNS:
        across, units = -(-span * unit // columns), width // span
    elif layout == plan.LANES:
        units = -(-width // columns)
    tiles = -(-rows // tile_rows) * across
    assert down * across + over == abreast and over < across
    assert p.grid[:2] == ((abreast, 1) if layout == plan.FLAT else (units, abreast))
    taken = []
    for stretch in range(p.grid[2]):
        for turn in range(abreast):
            early = ((abreast - 1 - turn) * skew) >> 16
            begin = max(stretch * steps - early, 0) * abreast
            stop = min(((stretch + 1) * steps - early) * abreast, tiles)
            mine = range(min(begin + turn, stop), stop, abreast)
            assert len(mine) <= steps
            taken += mine
    assert sorted(taken) == list(range(tiles))
    if kernel == "backward":
        assert steps * 4 * parts <= 512


TAILS = {  # shape without the batch, order of dims, groups
    "one unit": ((64, 14, 14), (0, 1, 2, 3), 1),
    "a unit a channel": ((64, 14, 14), (0, 1, 2, 3), 64),
    "a unit a channel, channels_last": ((64, 14, 14), (0, 2, 3, 1), 64),
    "tokens": ((768,), (0, 1), 8),
    "a unit a neuron": ((100,), (0, 1), 100),
}


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("tail, order, groups", TAILS.values(), ids=list(TAILS))
def test_a_new_batch_size_compiles_nothing(tail, order, groups, dtype, noise, monkeypatch):
    monkeypatch.setattr(plan, "_at_once", lambda registers, device: 132 * 2**16 // registers // 128)
    for kernel in ("forward", "backward"):
        plans = [
            plan.plan_for.__wrapped__(
                kernel, torch.device("cpu"), dtype, torch.Size((n, *tail)), order, groups, 1, noise
            )
            for n in (340, 341, 512, 777, 1000)
        ]
        compiled = {(p.shape, p.threads, p.registers, p.batch, p.alone) for p in plans}
        assert len(compiled) == 1
        if kernel == "forward" and not noise:  # with noise a program gets more tiles at some size
            assert len({p.more for p in plans}) == 1


def test_tiles_with_a_unit_a_column():
    """Powers of two, no wider than threads; little of them is wasted, nothing if it need not be."""
    for width in range(1, 3000):
        columns = plan._lanes(width, 1000, 128)
        assert columns & (columns - 1) == 0 and columns <= 128
        assert width % 32 or width % columns == 0
        assert width < 128 or -width % columns <= width / 8


@pytest.mark.parametrize(
    "tail, groups, order",
    [
        ((16, 600, 600), 16, (0, 1, 2, 3)),
        ((64, 56, 56), 64, (0, 1, 2, 3)),
        ((100,), 100, (0, 1)),
        ((96,), 96, (0, 1)),
        ((48, 14, 14), 48, (0, 2, 3, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_a_small_batch_does_not_fill_tiles_with_nothing(tail, groups, order, dtype):
    """They have no more rows than there are, if a wider tile of four is not wide enough."""
    for batch in range(1, 40):
        shape = torch.Size((batch, *tail))
        p = plan.plan_for.__wrapped__(
            "backward", torch.device("cpu"), dtype, shape, order, groups, 1, False
        )
        assert max(4, p.numbers.rows) >= p.shape.ROWS or p.numbers.width <= p.shape.COLS


@pytest.mark.parametrize("kernel", ["forward", "backward"])
@pytest.mark.parametrize("shape", [(2, 2**35), (2**35, 2), (2**30, 96), (2**30, 2, 9)], ids=str)
def test_no_grid_is_too_large(kernel, shape, monkeypatch):
    monkeypatch.setattr(plan, "_at_once", lambda registers, device: 500)
    order = tuple(range(len(shape)))
    p = plan.plan_for.__wrapped__(
        kernel, torch.device("cpu"), F32, torch.Size(shape), order, 2, 1, False
    )
    assert p.grid[0] < 2**31 and max(p.grid[1:]) < 2**16


def test_compiles_for_nvidia_and_amd(tmp_path):
    """Without a GPU too: the interpreter accepts what the compiler does not."""
    script = ROOT / "tests" / "shared" / "compile_gpu.py"
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("cuda") == 9 and done.stdout.count("hip") == 2


@pytest.mark.parametrize("there", [False, True])
def test_triton_is_asked_for_only_where_there_is_a_gpu(there, monkeypatch):
    monkeypatch.setattr(gpu, "_find", lambda: (None, "Triton does not import."))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert gpu.status() == ("missing: Triton does not import." if there else "no GPU")
