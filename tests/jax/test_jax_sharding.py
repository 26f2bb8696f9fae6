"""On 8 devices of the host: nothing of the size of x is gathered, and all comes out as on one."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed")

if __name__ != "__main__":

    def test_on_eight_devices():
        flags = "--xla_force_host_platform_device_count=8"
        run = subprocess.run(
            [sys.executable, __file__],
            capture_output=True,
            text=True,
            env={**os.environ, "XLA_FLAGS": flags},
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.split() == ["jit", "groups", "shard_map", "explicit", "noise"]


def main():
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    from padenet.core import STARTS
    from padenet.jax import randomized, rational

    mesh = jax.make_mesh((4, 2), ("d", "m"), axis_types=(AxisType.Auto,) * 2)
    start = STARTS["gelu"]
    a, b = jnp.array(start.a, jnp.float32), jnp.array(start.b, jnp.float32)
    x, dy = (jax.random.normal(jax.random.key(i), (16, 8, 6)) for i in range(2))

    def split(v, spec, mesh=mesh):
        return jax.device_put(v, NamedSharding(mesh, spec))

    def close(got, want):  # sums of 768 terms in other orders
        for g, w in zip(got, want, strict=True):
            assert jnp.abs(g - w).max() <= 32 * 2.0**-23 * jnp.abs(w).max()

    def gathered(text):
        """The sizes of what is gathered."""
        shapes = re.findall(r"= \w+\[([\d,]*)\][^=]* all-gather", text)
        return [eval("*".join(s.split(",")) or "1") for s in shapes]

    def both(x, a, b, dy, **options):
        y, pull = jax.vjp(lambda *v: rational(*v, **options), x, a, b)
        push = jax.jvp(lambda *v: rational(*v, **options), (x, a, b), (dy, a, b))[1]
        return y, push, *pull(dy)

    def check(coefficients, specs, **options):
        call = jax.jit(lambda *v: both(*v, **options))
        want = call(x, *coefficients, dy)
        for spec in specs:
            given = split(x, spec), *coefficients, split(dy, spec)
            given = [split(v, P()) if v.ndim < 3 else v for v in given]
            assert max(gathered(call.lower(*given).compile().as_text()), default=0) < x.size / 8
            got = call(*given)
            assert got[0].sharding.is_equivalent_to(NamedSharding(mesh, spec), x.ndim)
            close(got, want)

    check((a, b), [P("d"), P("d", "m"), P(None, None, "m"), P(("d", "m"))])
    print("jit")
    tables = [jnp.stack([c * (1 + 0.1 * i) for i in range(4)]) for c in (a, b)]
    check(tables, [P("d"), P("d", "m"), P("m", "d")], channel_dim=1)
    print("groups")

    want = both(x, a, b, dy)
    loss = lambda f: lambda *v: (f(*v) * dy).sum()
    for checked in (True, False):
        mapped = jax.shard_map(
            rational,
            mesh=mesh,
            in_specs=(P("d"), P(), P()),
            out_specs=P("d"),
            check_vma=checked,
        )
        close(jax.jit(jax.grad(loss(mapped), (0, 1, 2)))(x, a, b), want[2:])
    inside = jax.shard_map(
        lambda x, a, b, dy: jax.grad(lambda *v: (rational(*v) * dy).sum(), (0, 1, 2))(x, a, b),
        mesh=mesh,
        in_specs=(P("d"), P(), P(), P("d")),
        out_specs=(P("d"), P(), P()),
    )
    close(jax.jit(inside)(x, a, b, dy), want[2:])
    print("shard_map")

    typed = jax.make_mesh((8,), ("e",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(typed):
        grads = jax.jit(lambda x, a, b, dy: jax.vjp(rational, x, a, b)[1](dy))
        got = grads(split(x, P("e"), typed), a, b, split(dy, P("e"), typed))
        assert jax.typeof(got[0]).sharding.spec[0] == "e"
        close([jax.device_get(g) for g in got], [jax.device_get(w) for w in want[2:]])
    print("explicit")

    noisy = jax.jit(lambda x: randomized(x, a, b, 5, alpha=0.1))
    part = split(x, P("d"))
    assert not gathered(noisy.lower(part).compile().as_text())
    close([noisy(part)], [noisy(x)])
    print("noise")


if __name__ == "__main__":
    main()
