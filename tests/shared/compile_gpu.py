"""Compile the GPU kernels for a GPU that need not be there: ``python tests/shared/compile_gpu.py``.

The interpreter of Triton runs what its compiler refuses. Prints a line for each kernel.
"""

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from padenet.core.forms import FORMS
from padenet.torch.kernels.gpu import sweeps

SAFE, ABS_TERMS, FREE, OFFSET = (
    FORMS[name].code for name in ("safe", "abs_terms", "free", "offset")
)
TARGETS = {
    "cuda": GPUTarget("cuda", 90, 32),
    "cuda 8.0": GPUTarget("cuda", 80, 32),
    "hip": GPUTarget("hip", "gfx942", 64),
}
NVIDIA = {"cuda": 2, "cuda 8.0": 1, "hip": 0}
TYPES = {"sums_ptr": "*fp64", "seed_ptr": "*i64", "q": "fp32", "alpha": "fp32", "seed": "i64"}
ALIGNED = ("x_ptr", "y_ptr", "dy_ptr", "dx_ptr", "a_ptr", "b_ptr", "sums_ptr", "width", "span")
NAMES = ("LAYOUT", "ROWS", "COLS", "UNIT", "WIDTH", "FAR_ROWS", "FAR_COLS")
# these for one element a word, and for two
FLAT = (0, 1, 512, 1, 512, 1, 128), (0, 1, 512, 1, 512, 1, 128)
RUNS = (1, 16, 32, 4, 0, 4, 32), (1, 16, 32, 4, 0, 2, 64)
LANES = (2, 16, 32, 1, 32, 4, 32), (2, 16, 32, 1, 0, 2, 64)


def build(kernel, dtype, target, options, **constants):
    signature, values, attributes = {}, {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name], values[i,] = "constexpr", constants[name]
            continue
        is_element = name in ("x_ptr", "y_ptr", "dy_ptr", "dx_ptr")
        default = f"*{dtype}" if is_element else "*fp32" if name.endswith("_ptr") else "i32"
        signature[name] = TYPES.get(name, default)
        if name in ALIGNED:
            attributes[i,] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, values, attributes)
    options = {"num_warps": 4, "enable_fp_fusion": True} | options
    return compile(source, target=TARGETS[target], options=options)


def build_pair(target, dtype, layout, form, m, n, noise, one_dy, alone, big, whole):
    parts = 1 if dtype == "fp32" else 2
    tile = dict(zip(NAMES, layout[parts - 1], strict=True))
    common = {"FORM": form, "M": m, "N": n, "NOISE": noise, "PARTS": parts, "BIG": big, **tile}
    common |= {"NVIDIA": NVIDIA[target]}
    if not noise:
        common["seed_ptr"] = None
    batch = 4 if layout is not LANES and not noise else 1
    cut = {"BATCH": batch, "MORE": batch == 1, "WHOLE": whole and layout is not FLAT}
    build(sweeps.forward, dtype, target, {}, **common, **cut)
    flags = {
        "WHOLE": whole,
        "ONE_DY": one_dy,
        "ALONE": alone,
        "EARLY": target == "cuda",
        "ONE_Q": form == SAFE,
    }
    build(sweeps.backward, dtype, target, {}, **common, **flags)


if __name__ == "__main__":
    cases = [
        ("fp32", FLAT, SAFE, 5, 4, 0, False, True, False, False),
        ("bf16", LANES, OFFSET, 5, 4, 0, False, False, False, True),
        ("bf16", FLAT, SAFE, 5, 4, 0, True, False, True, True),
        ("fp16", RUNS, ABS_TERMS, 3, 0, 1, True, False, False, False),
        ("fp32", LANES, FREE, 0, 2, 2, False, False, False, False),
        ("bf16", RUNS, SAFE, 5, 4, 0, False, True, False, True),
        ("fp32", LANES, SAFE, 5, 4, 0, False, False, True, True),
    ]
    # Two units side by side in one word: Triton takes a width of 1 for a constant.
    narrow = dict(zip(NAMES, (2, 512, 1, 1, 1, 64, 2), strict=True)) | {"WHOLE": True}
    narrow |= {"FORM": SAFE, "M": 5, "N": 4, "NOISE": 0, "PARTS": 2, "BIG": True, "NVIDIA": 2}
    narrow |= {"width": 1, "span": 1, "seed_ptr": None, "BATCH": 2, "MORE": True}
    build(sweeps.forward, "bf16", "cuda", {}, **narrow)
    print("cuda bf16 one word wide")
    for target, case in (
        [("cuda", c) for c in cases] + [("hip", c) for c in cases[:2]] + [("cuda 8.0", cases[1])]
    ):
        build_pair(target, *case)
        print(target, *case)
