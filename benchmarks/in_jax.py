"""A unit in JAX on the CPU beside JAX's own activations, in one run: python benchmarks/in_jax.py

Medians in ms of forward and of forward + backward under jit, taken in turns, and their ratios to
relu. ``--threads 1`` pins the process to one core. The formula is what a user of JAX can write:
``jnp`` operations, differentiated by JAX; it is wrong for large x, but quick to write.
"""

import argparse
import os
import platform
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--rounds", type=int, default=15)
arguments = parser.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jaxlib  # noqa: E402

import padenet  # noqa: E402
import padenet.jax  # noqa: E402

START = padenet.core.STARTS["gelu"]
SIZES = {"float32": (4096, 6_400_000), "bfloat16": (6_400_000,)}


def formula(x, a, b):
    """As one writes it."""
    a, b = (c.astype(x.dtype) for c in (a, b))
    P = jnp.polyval(a[::-1], x)
    return P / (1 + jnp.abs(jnp.polyval(jnp.append(b[::-1], 0), x)))


ACTIVATIONS = {
    "relu": lambda x, a, b: jax.nn.relu(x),
    "silu": lambda x, a, b: jax.nn.silu(x),
    "gelu": lambda x, a, b: jax.nn.gelu(x),
    "PAU": padenet.jax.rational,
    "formula under autodiff": formula,
}


def both(f):
    def run(x, a, b, dy):
        y, pull = jax.vjp(f, x, a, b)
        return y, pull(dy)

    return run


def medians(calls, given, rounds, repeat):
    """Of each call, in ms; in turns, so that all see the same machine."""
    times = {name: [] for name in calls}
    for call in calls.values():
        jax.block_until_ready(call(*given))
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.perf_counter()
            for _ in range(repeat):
                out = call(*given)
            jax.block_until_ready(out)
            times[name].append((time.perf_counter() - begun) / repeat * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def main():
    print(f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, Python {platform.python_version()}")
    print(f"{arguments.threads} threads; {padenet.jax.native.backends()['jax']}")
    a, b = (jnp.array(c, jnp.float32) for c in (START.a, START.b))
    for dtype, sizes in SIZES.items():
        for size in sizes:
            x, dy = (jax.random.normal(jax.random.key(i), (size,)).astype(dtype) for i in range(2))
            repeat = max(1, 200_000 // size)
            forward = {n: jax.jit(f) for n, f in ACTIVATIONS.items()}
            backward = {n: jax.jit(both(f)) for n, f in ACTIVATIONS.items()}
            one = medians(forward, (x, a, b), arguments.rounds, repeat)
            two = medians(backward, (x, a, b, dy), arguments.rounds, repeat)
            print(f"\n{size} {dtype}{'':>12} forward    / relu   forward + backward    / relu")
            for name in ACTIVATIONS:
                parts = [v for t in (one, two) for v in (t[name], t[name] / t["relu"])]
                print("{:24} {:9.3f} {:9.2f} {:19.3f} {:9.2f}".format(name, *parts))


if __name__ == "__main__":
    main()
