"""What each framework answers to the same problems, through its public functions.

``python tests/shared/frameworks.py records.json answers.npz`` answers on the backend of Keras that
KERAS_BACKEND names: of those there is one in a process.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from conformance import NAMES, Case, computed_in, read

from padenet import exchange
from padenet.core import Spec

Array = np.ndarray
Answers = dict[str, Array]
SHARED = Path(__file__).parent
SRC = SHARED.parents[1] / "src"
KEY = (7 << 32) + 5
NOISY = Spec("safe", 1.0, 1, 0.1)


def call(functions: Any, x: Any, a: Any, b: Any, key: Any, spec: Spec) -> Any:
    form, q, channel_dim, alpha = spec
    options = {"form": form, "q": q, "channel_dim": channel_dim}
    if key is None:
        return functions.rational(x, a, b, **options)
    return functions.randomized(x, a, b, key, alpha=alpha, **options)


def arrays(case: Case, dtype: str) -> list[Array]:
    """dy, x, a, b as NumPy has them."""
    import ml_dtypes

    kept, wide = (np.dtype(getattr(ml_dtypes, d, d)) for d in (dtype, computed_in(dtype)))
    values = (case.dy, case.x, case.a, case.b)
    return [v.astype(d) for v, d in zip(values, (kept, kept, wide, wide), strict=True)]


def words(key: int | None) -> Array | None:
    return None if key is None else np.array([key >> 32 & 0xFFFFFFFF, key & 0xFFFFFFFF], np.uint32)


def by_numpy(dy: Array, x: Array, a: Array, b: Array, key: int | None, spec: Spec) -> list[Array]:
    import padenet.numpy as functions

    options = {"form": spec.form, "q": spec.q, "channel_dim": spec.channel_dim}
    y = functions.rational(x, a, b, **options)
    return [y, *functions.rational_vjp(dy, x, a, b, **options)]


def by_torch(dy: Array, x: Array, a: Array, b: Array, key: int | None, spec: Spec) -> list[Array]:
    import torch

    import padenet.torch as functions

    def tensor(v):
        wide = torch.tensor(v.astype(float))
        return wide.to(getattr(torch, v.dtype.name))

    leaves = [tensor(v).requires_grad_() for v in (x, a, b)]
    y = call(functions, *leaves, key, spec)
    found = [y, *torch.autograd.grad(y, leaves, tensor(dy), materialize_grads=True)]
    return [v.detach().double().numpy() for v in found]


def by_jax(dy: Array, x: Array, a: Array, b: Array, key: int | None, spec: Spec) -> list[Array]:
    import jax

    import padenet.jax as functions

    with jax.enable_x64(True):
        y, vjp = jax.vjp(
            lambda *v: call(functions, *v, words(key), spec), *map(jax.numpy.asarray, (x, a, b))
        )
        return [y, *vjp(jax.numpy.asarray(dy))]


def by_keras(dy: Array, x: Array, a: Array, b: Array, key: int | None, spec: Spec) -> list[Array]:
    """On the backend of this process."""
    import keras

    import padenet.keras as functions

    if keras.backend.backend() == "jax":
        import jax

        given = map(jax.numpy.asarray, (x, a, b))
        y, vjp = jax.vjp(lambda *v: call(functions, *v, words(key), spec), *given)
        return [y, *vjp(jax.numpy.asarray(dy))]
    dy, x, a, b = (keras.ops.convert_to_tensor(v) for v in (dy, x, a, b))
    seed = None if key is None else keras.ops.convert_to_tensor(words(key).astype("int64"))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch([x, a, b])
            y = call(functions, x, a, b, seed, spec)
        return [y, *tape.gradient(y, [x, a, b], dy)]
    import torch

    leaves = [v.detach().requires_grad_() for v in (x, a, b)]
    y = call(functions, *leaves, seed, spec)
    found = [y, *torch.autograd.grad(y, leaves, dy, materialize_grads=True)]
    return [v.detach().double() for v in found]


def tensorflow_refuses(case: Case, dtype: str) -> str | None:
    if any(np.isinf(v).any() for v in (case.x, case.dy)):
        return "x = inf is taken as 2^160 or more, and not followed to the limit"
    least = 2.0 ** (-1022 if dtype == "float64" else -126)
    given = (case.x, case.dy, case.a, case.b)
    if any(((v != 0) & (abs(v) < least)).any() for v in given):
        return "subnormal numbers are flushed to zero"
    return None


class Framework(NamedTuple):
    run: Callable[..., list[Array]]
    package: str
    keras: str = ""  # the backend of Keras, in a process of its own
    noise: bool = True
    refuses: Callable[[Case, str], str | None] = lambda case, dtype: None


FRAMEWORKS = {
    "NumPy": Framework(by_numpy, "numpy", noise=False),
    "PyTorch": Framework(by_torch, "torch"),
    "JAX": Framework(by_jax, "jax"),
    "Keras on JAX": Framework(by_keras, "jax", "jax"),
    "Keras on TensorFlow": Framework(
        by_keras, "tensorflow", "tensorflow", refuses=tensorflow_refuses
    ),
    "Keras on PyTorch": Framework(by_keras, "torch", "torch"),
}


def missing(framework: Framework) -> str | None:
    packages = [framework.package, *["keras"] * bool(framework.keras), "ml_dtypes"]
    absent = [p for p in packages if not find_spec(p)]
    return f"{', '.join(absent)} not installed" if absent else None


def noisy_problem() -> list[Array]:
    rng = np.random.default_rng(0)
    dy, x = rng.standard_normal((2, 30, 6, 20)).astype("float32")
    return [dy, x, *(rng.standard_normal((3, n)).astype("float32") for n in (6, 4))]


def solve(framework: Framework) -> dict[str, Array]:
    """Answers to all cases, and to the noisy problem, as ``i/dtype/y``."""
    answers: dict[str, Array] = {}

    def put(name, found):
        for n, v in zip(NAMES, found, strict=True):
            answers[f"{name}/{n}"] = np.asarray(v).astype(float)

    for i, case in enumerate(read()[0]):
        for dtype in case.dtypes:
            if (case.key is None or framework.noise) and not framework.refuses(case, dtype):
                put(f"{i}/{dtype}", framework.run(*arrays(case, dtype), case.key, case.spec))
    if framework.noise:
        put("noise", framework.run(*noisy_problem(), KEY, NOISY))
    return answers


def units_of_keras(records: dict[str, Any], x: Array) -> dict[str, Array]:
    """What units of Keras, made from records, give; and that they give the records back."""
    import keras

    import padenet.keras

    found = {}
    for name, record in records.items():
        kind = padenet.keras.RPAU if record["alpha"] else padenet.keras.PAU
        unit = exchange.from_dict(record, kind)
        assert exchange.to_dict(unit) == record
        other = kind(
            "tanh",
            **{k: record[k] for k in ("form", "q", "groups", "channel_dim")},
            **({"alpha": record["alpha"]} if record["alpha"] else {}),
        )
        exchange.from_dict(record, other)
        assert exchange.to_dict(other) == record
        found[name] = keras.ops.convert_to_numpy(unit(x)).astype(float)
    return found


@cache
def answers_of(name: str, records: str = "{}") -> dict[str, Array]:
    """All answers of a framework; of Keras in another process."""
    framework = FRAMEWORKS[name]
    if not framework.keras:
        with np.errstate(all="ignore"):
            return solve(framework)
    own = {
        "KERAS_BACKEND": framework.keras,
        "PYTHONPATH": os.pathsep.join(map(str, (SRC, SHARED))),
        "JAX_ENABLE_X64": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "records.json"), Path(folder, "answers.npz")
        given.write_text(records)
        command = [sys.executable, "-W", "ignore", __file__, name, str(given), str(made)]
        done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        with np.load(made) as file:
            return dict(file)


if __name__ == "__main__":
    _, name, given, made = sys.argv
    x = noisy_problem()[1]
    records = json.loads(Path(given).read_text())
    units = {f"unit/{k}": v for k, v in units_of_keras(records, x).items()}
    with np.errstate(all="ignore"):
        np.savez(made, **units, **solve(FRAMEWORKS[name]))
