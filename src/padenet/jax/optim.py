"""Units under the optimisers of optax: no decay, and no step that makes one blow up."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from padenet.jax.trust import MOST, hold
from padenet.jax.units import Kind

Tree = Any
Path = tuple[str, ...]
SPIKE, DECAY = 3.0, 0.99


def decay_mask(model: Tree) -> Callable[[Tree], Tree]:
    """For ``mask`` of ``optax.adamw`` and others: everything decays except for the coefficients of
    units, which decay would pull towards the zero function.

        optax.adamw(1e-3, weight_decay=0.01, mask=padenet.jax.decay_mask(model))

    Args:
        model: Of Equinox or Flax, with units of ``padenet.jax``.
    """
    own = {(*path, name) for path in units_of(model) for name in ("a", "b")}

    def mask(params: Tree) -> Tree:
        return jax.tree_util.tree_map_with_path(lambda path, _: _names(path) not in own, params)

    return mask


class StabilizerState(NamedTuple):
    """``cut``: how often the gradients were shortened. ``held``: how often each unit's step was,
    in the order of their paths, of its group that was held most often."""

    inner: Any
    square: jax.Array
    seen: jax.Array
    steps: jax.Array
    cut: jax.Array
    held: tuple[jax.Array, ...]


def stabilize(
    optimizer: optax.GradientTransformation,
    model: Tree,
    *,
    most: float = MOST,
    spike: float | None = SPIKE,
) -> optax.GradientTransformationExtraArgs:
    """``optimizer``, of which no step moves a unit of ``model`` too far.

        optimizer = padenet.jax.stabilize(optax.adam(1e-3), model)

    Each step of a unit is measured by what it does to the function, and shortened where that is
    more than ``most``. Besides, gradients that are suddenly ``spike`` times as large as usual are
    shortened to that. It is ``padenet.stabilize`` for optax: docs/stability.md says why. It must be
    the outermost transformation, so that it sees the step that is taken.

    Args:
        optimizer: The one that trains the model.
        model: Of Equinox or Flax, as it starts.
        most: How far F may move in a step, anywhere in [-3, 3]; beyond in proportion to \\|x\\|.
        spike: How many times the usual size gradients may be; None for no limit.
    """
    if not 0 < most < float("inf"):
        raise ValueError(
            f"most={most} must be a finite number above 0: {MOST} lets F move by that much."
        )
    if spike is not None and not 1 < spike < float("inf"):
        raise ValueError(
            f"spike={spike} must be a finite number above 1, or None: {SPIKE} shortens gradients "
            "that are more than that many times as large as usual."
        )
    units = units_of(model)
    if not units:
        raise ValueError("model has no unit to stabilize. Leave this out.")
    inner = optax.with_extra_args_support(optimizer)

    def init(params: Tree) -> StabilizerState:
        _find(units, params)
        zero = jnp.zeros((), jnp.int32)
        return StabilizerState(
            inner.init(params), jnp.zeros(()), zero, zero, zero, tuple(zero for _ in units)
        )

    def update(
        grads: Tree, state: StabilizerState, params: Tree = None, **extra: Any
    ) -> tuple[Tree, StabilizerState]:
        if params is None:
            raise ValueError("stabilize measures steps from where they start: give params.")
        grads, state = _shorten(grads, state, spike)
        updates, own = inner.update(grads, state.inner, params, **extra)
        leaves, tree = jax.tree_util.tree_flatten(updates)
        values = jax.tree_util.tree_leaves(params)
        held = []
        for times, (kind, i, j) in zip(state.held, _find(units, params), strict=True):
            steps, cut = _hold(kind, (values[i], values[j]), (leaves[i], leaves[j]), most)
            leaves[i], leaves[j] = steps
            held.append(times + cut)
        state = state._replace(inner=own, steps=state.steps + 1, held=tuple(held))
        return jax.tree_util.tree_unflatten(tree, leaves), state

    return optax.GradientTransformationExtraArgs(init, update)


def _shorten(
    grads: Tree, state: StabilizerState, spike: float | None
) -> tuple[Tree, StabilizerState]:
    """g <- min(g, spike s), with s the running root mean square of g. What is not finite is left."""
    if spike is None:
        return grads, state
    size = optax.global_norm(jax.tree.map(lambda g: g.astype(_wide(g)), grads))
    most = spike * jnp.sqrt(state.square)
    finite = jnp.isfinite(size * size)
    over = (state.seen > 0) & (size > most) & finite
    counts = finite & (size > 0)
    seen = state.seen + counts
    decay = jnp.minimum(1 - 1 / jnp.maximum(seen, 1), DECAY)
    square = jnp.where(over, most, size) ** 2
    square = jnp.where(counts, decay * state.square + (1 - decay) * square, state.square)
    factor = jnp.where(over, most / size, 1.0)
    grads = jax.tree.map(lambda g: g * factor.astype(g.dtype), grads)
    square = square.astype(state.square.dtype)
    return grads, state._replace(square=square, seen=seen, cut=state.cut + over)


def _hold(
    kind: Kind, values: tuple[Any, Any], steps: tuple[Any, Any], most: float
) -> tuple[list[Any], Any]:
    """The steps that a and b take, and whether they were cut."""
    rows = [v.reshape(-1, v.shape[-1]) for v in values]
    new = [(v + s.astype(v.dtype)).reshape(r.shape) for v, s, r in zip(values, steps, rows)]
    count = rows[0].shape[0]
    floor = jnp.tile(jnp.array(kind.floor, rows[0].dtype), count // len(kind.floor))
    a, b, cut = hold((rows[0], rows[1]), (new[0], new[1]), floor, kind.degrees, kind.spec, most)
    found = [
        (c - r.astype(c.dtype)).reshape(s.shape).astype(s.dtype)
        for c, r, s in zip((a, b), rows, steps, strict=True)
    ]
    return found, cut.any().astype(jnp.int32)


def _wide(g: Any) -> Any:
    return jnp.promote_types(g.dtype, jnp.float32)


def units_of(model: Tree) -> dict[Path, Kind]:
    """The units of a model of Equinox or Flax, by their paths in it."""
    found: dict[Path, Kind] = {}
    is_unit = lambda v: isinstance(getattr(v, "kind", None), Kind)
    if hasattr(model, "iter_modules") or "flax" in {
        c.__module__.split(".")[0] for c in _types(model)
    }:
        from flax import nnx

        for path, module in nnx.iter_modules(model):
            if is_unit(module):
                found[tuple(map(str, path))] = module.kind
        return found
    for path, leaf in jax.tree_util.tree_flatten_with_path(model, is_leaf=is_unit)[0]:
        if is_unit(leaf):
            found[_names(path)] = leaf.kind
    return found


def _types(model: Tree) -> tuple[type, ...]:
    return type(model).__mro__


def _find(units: dict[Path, Kind], params: Tree) -> list[tuple[Kind, int, int]]:
    """Each unit, and where a and b are among the leaves of ``params``."""
    paths = [_names(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    places = {path: i for i, path in enumerate(paths)}
    missing = [path for path in units if (*path, "a") not in places or (*path, "b") not in places]
    if missing:
        raise ValueError(
            f"the parameters have no coefficients of unit {'.'.join(missing[0])!r}. Give stabilize "
            "the model that is trained, and init and update all of its parameters."
        )
    return [(kind, places[*path, "a"], places[*path, "b"]) for path, kind in units.items()]


def _names(path: Any) -> Path:
    """Of a path in a tree; Flax has a last step to the value of a variable."""
    names = tuple(str(next(_parts(key))) for key in path)
    return names[:-1] if names and names[-1] in ("value", "raw_value") else names


def _parts(key: Any) -> Any:
    for name in ("name", "key", "idx"):
        if hasattr(key, name):
            yield getattr(key, name)
