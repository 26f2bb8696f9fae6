"""What the kernels ask of an NVIDIA GPU, read in machine code: python benchmarks/instructions.py

Compiles them for sm_90 as they are run, without a GPU, and prints for an element in the loop over
the tiles, or where there is no loop on the way to the end: instructions; registers they read;
cycles in which a scheduler could issue them. An instruction takes one, and one more if it reads two
registers of one bank: there are two banks, of even and of odd registers, each of which hands over
one register a cycle. A register that the instruction before it kept (``.reuse``) is not read again.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch
import triton

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "shared"))
from compile_gpu import build

from padenet.core.forms import FORMS
from padenet.torch.kernels.gpu import sweeps
from padenet.torch.kernels.gpu.plan import Plan, plan_for

CASES = {  # shape, order of dims in memory, groups, whether there is noise
    "one unit": ((2**26,), (0,), 1, False),
    "8 groups": ((25216, 768), (0, 1), 8, False),
    "64 groups": ((256, 64, 56, 56), (0, 1, 2, 3), 64, False),
    "64 groups, channels_last": ((256, 64, 56, 56), (0, 2, 3, 1), 64, False),
    "noise": ((2**26,), (0,), 1, True),
}
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


def compile_kernel(plan: Plan, dtype: str, registers: int) -> bytes:
    constants = plan.shape._asdict()
    constants |= {"FORM": FORMS["safe"].code, "M": 5, "N": 4, "seed_ptr": None, "NVIDIA": 2}
    if plan.kernel == "forward":
        constants |= {"BATCH": plan.batch, "MORE": plan.more}
    else:
        constants |= {"ONE_DY": False, "ALONE": plan.alone, "EARLY": True, "ONE_Q": True}
    options = {"num_warps": plan.threads // 32, "maxnreg": registers}
    kernel = getattr(sweeps, plan.kernel)
    code: bytes = build(kernel, dtype, "cuda", options, **constants).asm["cubin"]
    return code


def disassemble(code: bytes) -> list[str]:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main_part(lines: list[str], loop: bool) -> list[str]:
    """The instructions from a label to a jump back to it: those with the most multiply-adds. Or
    those up to the first exit, without what is jumped over: that is for odd tensors."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    loops: list[list[str]] = []
    target = None
    for line in lines:
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
            target = None if target == label[1] else target
        elif target and not loop:
            continue
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            instructions.append(re.sub(r"^@!?U?P\w+ ", "", found[1].strip()))
            if not loop and instructions[-1] == "EXIT":
                return instructions
            jump = re.search(r"BRA.*(\.L_x_\d+)", found[1])
            if jump and jump[1] in labels:
                loops.append(instructions[labels[jump[1]] :])
            elif jump:
                target = jump[1]
    return max(loops, key=lambda loop: sum("FFMA" in i for i in loop))


def reads(instructions: list[str]) -> Iterator[tuple[int, int]]:
    """Registers that each instruction reads, of the even and of the odd bank."""
    kept: dict[int, str] = {}
    for instruction in instructions:
        name, _, rest = instruction.partition(" ")
        sources = rest.split(",")[0 if name.startswith(("ST", "BRA")) else 1 :]
        found = {i: m[1] for i, s in enumerate(sources) if (m := re.search(r"\bR(\d+)", s))}
        fresh = {int(r) for i, r in found.items() if kept.get(i) != r}
        yield sum(r % 2 == 0 for r in fresh), sum(r % 2 for r in fresh)
        kept = {i: r for i, r in found.items() if ".reuse" in sources[i]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--registers", type=int, nargs="+", help="instead of the plan's")
    parser.add_argument("--kinds", action="store_true", help="also how many there are of each")
    args = parser.parse_args()
    print("| kernel | registers | instructions | registers read | cycles |")
    print("|---|---:|---:|---:|---:|")
    for kernel, (case, (shape, order, groups, noise)), (dtype, name) in product(
        ("forward", "backward"), CASES.items(), NAMES.items()
    ):
        cpu = torch.device("cpu")
        plan = plan_for(kernel, cpu, dtype, torch.Size(shape), order, groups, 1, noise)
        for registers in args.registers or [plan.registers]:
            lines = disassemble(compile_kernel(plan, name, registers))
            part = main_part(lines, loop=kernel == "backward" or plan.more)
            banks = list(reads(part))
            # Tiles in it, where they are whole
            turn = 1 if noise else 2 if kernel == "backward" else plan.batch
            elements = 4 * (4 // dtype.itemsize) * turn
            numbers = len(part), sum(map(sum, banks)), sum(max(1, *b) for b in banks)
            cells = " | ".join(f"{n / elements:.1f}" for n in numbers)
            print(f"| {kernel}, {case}, {name} | {registers} | {cells} |", flush=True)
            if args.kinds:
                kinds = Counter(i.split()[0].split(".")[0] for i in part)
                print("  ", " ".join(f"{k} {v}" for k, v in kinds.most_common()))
    print(f"\nCompiled by Triton {triton.__version__}.")


if __name__ == "__main__":
    main()
