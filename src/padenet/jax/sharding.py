"""The unit on arrays that several devices share: each computes its part of x, nothing is gathered.

Only where groups and the parts of their dim do not match is that dim put together. The gradients
of the coefficients are summed over the devices.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from padenet.core.forms import Spec

Array = Any
Compute = Callable[..., Any]


@cache
def forward(compute: Compute, spec: Spec, groups: int) -> Compute:
    """``compute(x, a, b)``, part by part."""
    whole = custom_partitioning(lambda x, a, b: compute(x, a, b, None, spec))

    def partition(mesh: Any, shapes: Any, result: Any) -> Any:
        x, a, b = _shardings(mesh, shapes, spec, groups)
        return mesh, lambda *v: compute(*v, None, spec), x, (x, a, b)

    whole.def_partition(
        infer_sharding_from_operands=lambda mesh, shapes, result: _shardings(
            mesh, shapes, spec, groups
        )[0],
        partition=partition,
        sharding_rule=_rule(1, 1),
    )
    return whole  # type: ignore[no-any-return]


@cache
def backward(compute: Compute, spec: Spec, groups: int) -> Compute:
    """``compute(dy, x, a, b)``, part by part."""
    whole = custom_partitioning(lambda dy, x, a, b: compute(dy, x, a, b, None, spec))

    def partition(mesh: Any, shapes: Any, result: Any) -> Any:
        x, a, b = _shardings(mesh, shapes[1:], spec, groups)
        own = a.spec[0] if groups > 1 else None
        others = tuple(
            name for part in x.spec if part != own or own is None for name in _names(part)
        )

        def part(*v: Array) -> tuple[Array, ...]:
            dx, da, db = compute(*v, None, spec)
            return dx, *(jax.lax.psum(d, others) if others else d for d in (da, db))

        return mesh, part, (x, a, b), (x, x, a, b)

    whole.def_partition(
        infer_sharding_from_operands=lambda mesh, shapes, result: _shardings(
            mesh, shapes[1:], spec, groups
        ),
        partition=partition,
        sharding_rule=_rule(2, 3),
    )
    return whole  # type: ignore[no-any-return]


@cache
def change(compute: Compute, spec: Spec, groups: int) -> Compute:
    """``compute(dx, da, db, x, a, b)``, part by part."""
    whole = custom_partitioning(lambda *v: compute(v[:3], *v[3:], None, spec))

    def partition(mesh: Any, shapes: Any, result: Any) -> Any:
        x, a, b = _shardings(mesh, shapes[3:], spec, groups)
        return mesh, lambda *v: compute(v[:3], *v[3:], None, spec), x, (x, a, b, x, a, b)

    whole.def_partition(
        infer_sharding_from_operands=lambda mesh, shapes, result: _shardings(
            mesh, shapes[3:], spec, groups
        )[0],
        partition=partition,
        sharding_rule=_rule(-1, 1),
    )
    return whole  # type: ignore[no-any-return]


def _names(part: Any) -> tuple[Any, ...]:
    """The axes of the mesh over which a dim is split."""
    return () if part is None else part if isinstance(part, tuple) else (part,)


def _shardings(mesh: Any, shapes: Any, spec: Spec, groups: int) -> tuple[Any, Any, Any]:
    """Of x, a and b, given what the compiler proposes for x."""
    x = shapes[0]
    given = getattr(x.sharding, "spec", PartitionSpec())
    parts = [*given, *[None] * (len(x.shape) - len(given))]
    own = None
    if groups > 1:
        own = parts[spec.channel_dim]
        count = 1
        for name in _names(own):
            count *= mesh.shape[name]
        if groups % count:
            parts[spec.channel_dim] = own = None
    lead = (own,) if groups > 1 else ()
    rest = [PartitionSpec(*lead, *[None] * (len(c.shape) - len(lead))) for c in shapes[1:3]]
    specs = [PartitionSpec(*parts), *rest]
    x, a, b = (NamedSharding(mesh, s) for s in specs)
    return x, a, b


def _rule(xs: int, results: int) -> Callable[..., str]:
    """Which dims are the same: those of all arrays like x. In the words of Shardy."""

    def rule(*args: Any) -> str:
        values, found = args[-2], args[-1]
        kinds = [*"x" * xs, "a", "b"] if xs > 0 else [*"xabxab"]
        outs = [*"x"] if results == 1 else [*"xab"]
        dims = [_dims(kind, v.rank) for kind, v in zip(kinds, values, strict=True)]
        made = [_dims(kind, v.rank) for kind, v in zip(outs, found, strict=True)]
        return ", ".join(dims) + " -> " + ", ".join(made)

    return rule


def _dims(kind: str, rank: int) -> str:
    return " ".join(f"{kind}{i}" for i in range(rank))


def _make_mark() -> Any:
    """A program that holds a partitioned function must be lowered with its devices known, which
    JAX finds out from the programs among the parameters of primitives: so ours have this one."""
    same = custom_partitioning(lambda v: v)
    same.def_partition(partition=None, sharding_rule="i -> i")
    return jax.make_jaxpr(same)(np.zeros(1, np.float32))


MARK = _make_mark()
