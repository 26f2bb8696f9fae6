"""Exported units against ReLU and GELU: python benchmarks/deploy.py [--out FILE]

A small conv net (3 convolutions of 32, 32 and 64 channels, on 8 images of 32 x 32) in onnxruntime,
compiled ahead of time by AOTInductor and traced by torch.jit, with one thread. Candidates take
turns; ratios are of time on the processor. Nodes are those of one activation in the ONNX file, and
its operations in the graph of torch.export.
"""

import argparse
import logging
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from measure import Record, describe, interleave, save
from torch import nn

import padenet

HERE = Path(__file__).parent
BATCH = 8
BARS = {"onnxruntime": 2.5, "aotinductor": 1.3}


def net(activation: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1), activation()]
    for i, o in ((32, 32), (32, 64)):
        layers += [nn.Conv2d(i, o, 3, padding=1), activation(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 10)).eval()


def unit(groups: int = 1) -> nn.Module:
    """A start, moved a little: no coefficient is 0, and each unit has its own."""
    made = padenet.PAU("gelu", groups=groups)
    with torch.no_grad():
        for c in made.parameters():
            c.mul_(1 + 0.01 * torch.rand_like(c)).add_(1e-3 * torch.rand_like(c))
    return made


NETS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: net(nn.ReLU),
    "gelu": lambda: net(nn.GELU),
    "pau": lambda: net(unit),
    "pau, 32 groups": lambda: net(partial(unit, 32)),
    "pau, frozen": lambda: padenet.freeze(net(unit)),
    "pau, table": lambda: padenet.freeze(net(unit), table=(-8.0, 8.0)),
}


def export(model: nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))


def count_operations(program: torch.export.ExportedProgram) -> int:
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    return sum("getitem" not in name for name in names)


def in_onnxruntime(model: nn.Module, x: torch.Tensor, folder: Path) -> tuple[Callable, int]:
    import onnx
    import onnxruntime

    path = folder / "net.onnx"
    size = {0: torch.export.Dim("n", min=2)}
    torch.onnx.export(model, (x,), path, dynamo=True, dynamic_shapes=(size,), verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    call = partial(session.run, None, {entry.name: x.numpy()})
    return call, len(onnx.load(path).graph.node)


def in_aotinductor(model: nn.Module, x: torch.Tensor, folder: Path) -> tuple[Callable, int]:
    program = export(model, x)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "net.pt2"))
    return partial(torch._inductor.aoti_load_package(path), x), count_operations(program)


def in_trace(model: nn.Module, x: torch.Tensor, folder: Path) -> tuple[Callable, int]:
    traced = torch.jit.freeze(torch.jit.trace(model, x))
    return partial(traced, x), sum(1 for n in traced.graph.nodes() if n.kind() != "prim::Constant")


ENGINES = {"onnxruntime": in_onnxruntime, "aotinductor": in_aotinductor, "torch.jit": in_trace}


def measure(engine: str, seconds: float) -> list[Record]:
    x = torch.randn(BATCH, 3, 32, 32)
    calls, counts = {}, {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for i, (name, make) in enumerate(NETS.items()):
            place = Path(folder) / str(i)
            place.mkdir()
            calls[name], counts[name] = ENGINES[engine](make(), x, place)
        times = interleave(calls, seconds, repeats=3)
    base = times["relu"]["cpu_p50"]
    return [
        {
            "engine": engine,
            "net": name,
            "operations": round((counts[name] - counts["relu"]) / 3 + 1, 1),
            "ratio": round(times[name]["cpu_p50"] / base, 3),
            **times[name],
        }
        for name in NETS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "deploy.json")
    parser.add_argument("--seconds", type=float, default=20, help="of each engine")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    args = parser.parse_args()
    for kind in (DeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", kind)  # torch's own, of its exporters
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    rows = []
    for engine in args.engines:
        for row in measure(engine, args.seconds):
            rows.append(row)
            print(f"{engine:12} {row['net']:15} {row['operations']:6} operations", end="")
            print(f"{row['cpu_p50']:9.3f} ms {row['ratio']:7.2f} times relu")
    for engine, bar in BARS.items():
        for row in rows:
            if row["engine"] == engine and row["net"] in ("pau", "pau, frozen"):
                ratio = row["ratio"]
                print(f"{engine}, {row['net']}: {ratio} times relu, at most {bar}: {ratio <= bar}")
    import onnxruntime

    versions = {"threads": 1, "onnxruntime": onnxruntime.__version__}
    save({"environment": describe() | versions, "rows": rows}, args.out)


if __name__ == "__main__":
    main()
