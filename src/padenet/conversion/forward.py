"""A module's own forward as a graph, and a changed graph as its forward.

Only one level is traced: the calls of children stay calls. Whatever a trace would freeze or lose
makes ``trace`` give a reason instead of a graph. A changed forward goes into a subclass made for
the module, so the module keeps its class, attributes, hooks and keys.
"""

import contextlib
import copy
import importlib
import inspect
import linecache
import operator
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import fx, nn

FROZEN = {
    "isinstance",
    "random",
    "no_grad",
    "enable_grad",
    "inference_mode",
    "set_grad_enabled",
    "is_grad_enabled",
    "autocast",
    "is_autocast_enabled",
    "checkpoint",
}
"""Names whose effect a trace fixes or drops without a word."""


AUGMENTED = [
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "imatmul",
    "iand",
    "ior",
    "ixor",
]


def augment(operation: str, x: Any, y: Any) -> Any:
    """``x += y`` and its like: writes into a tensor, and leaves a number as it is."""
    return getattr(operator, operation)(x, y)


class _Proxy(fx.Proxy):
    """Records ``x += y`` as that; torch's own records ``x + y``, and aliases of x miss it."""


def _record(operation: str) -> Any:
    def method(self: fx.Proxy, y: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", augment, (operation, self, y), {})

    return method


for _operation in AUGMENTED:
    setattr(_Proxy, f"__{_operation}__", _record(_operation))


class _OneLevel(fx.Tracer):
    proxy_buffer_attributes = True

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class _Differ(Exception):
    pass


def trace(module: nn.Module) -> fx.Graph | str:
    """The graph of ``module.forward``, for training and evaluation; or why there is none."""
    if isinstance(module, fx.GraphModule):
        return module.graph
    forward = type(module).forward
    if "forward" in vars(module) or hasattr(forward, "__wrapped__"):
        return "its forward is decorated or set on the instance"
    frozen = FROZEN & set(names_in(forward, type(module)))
    if frozen:
        return f"its forward uses {', '.join(sorted(frozen))}, which a trace would freeze"
    parameters = inspect.signature(forward).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return "its forward takes *args or **kwargs"
    try:
        graph = _trace(module, training=True)
        evaluated = _trace(module, training=False)
    except _Differ as e:
        return str(e)
    except Exception as e:  # anything a forward may do with a proxy
        line = next(iter(str(e).splitlines()), "")[:90]
        return f"torch.fx cannot trace it: {type(e).__name__}: {line}"
    names = [p.name for p in parameters][1:]
    optional = [p.name for p in parameters if p.default is None]
    for missing in [*([name] for name in names), optional]:
        if _calls_without(module, missing) not in (None, _calls(graph)):
            return f"its forward asks whether {' and '.join(missing)} is None"
    try:
        _merge(graph, evaluated)
    except _Differ:
        return "its forward does something else in training than in evaluation"
    return graph


def names_in(function: Any, owner: type, seen: set[Any] | None = None) -> Iterator[str]:
    """Names that a forward uses, with those of its class's methods and of functions it calls."""
    seen = set() if seen is None else seen
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            found[name] = cell.cell_contents
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        found |= {n: function.__globals__.get(n, getattr(owner, n, None)) for n in code.co_names}
    for name, value in found.items():
        yield name
        yield str(getattr(value, "__name__", name))  # of ``from ... import relu as act``
        if not str(getattr(value, "__module__", "")).startswith("torch"):
            yield from names_in(value, owner, seen)


def _trace(module: nn.Module, *, training: bool, **options: Any) -> fx.Graph:
    shadow = copy.copy(module)
    for table in ("_modules", "_parameters", "_buffers"):
        shadow.__dict__[table] = dict(vars(module)[table])
    shadow.training = training
    before = dict(vars(shadow))
    graph = _OneLevel().trace(shadow, **options)
    after = vars(shadow)
    changed = [k for k in after if k not in before or after[k] is not before[k]]
    if any(k.startswith("_tensor_constant") for k in changed):
        raise _Differ("its forward makes a tensor, which a trace would freeze")
    if changed:
        raise _Differ(f"its forward sets {', '.join(changed)}, which a trace would lose")
    for node in graph.nodes:
        node.type = None  # annotations would only have to be stored
    return graph


def _calls(graph: fx.Graph) -> list[tuple[str, Any]]:
    skipped = ("placeholder", "get_attr")
    nodes = [n for n in graph.nodes if n.op not in skipped]
    return [
        (n.op, n.target) for n in nodes if getattr(n.target, "__name__", "") != "_assert_is_none"
    ]


def _calls_without(module: nn.Module, names: list[str]) -> list[tuple[str, Any]] | None:
    """The calls with None for the arguments named; None if they are needed."""
    try:
        return _calls(_trace(module, training=True, concrete_args=dict.fromkeys(names)))
    except Exception:  # whatever comes of None where a tensor belongs
        return None


def _merge(graph: fx.Graph, evaluated: fx.Graph) -> None:
    """Where the two differ by a flag that is ``self.training``, let ``graph`` read it there."""
    flags: dict[bool, fx.Node] = {}
    nodes, others = list(graph.nodes), list(evaluated.nodes)
    if len(nodes) != len(others):
        raise _Differ
    place = {n: i for ns in (nodes, others) for i, n in enumerate(ns)}
    first = next(n for n in nodes if n.op != "placeholder")

    def flag(value: bool) -> fx.Node:
        if not flags:
            with graph.inserting_before(first):
                flags[True] = graph.create_node("get_attr", "training")
                flags[False] = graph.call_function(operator.not_, (flags[True],))
        return flags[value]

    def merge(u: Any, v: Any) -> Any:
        if isinstance(u, fx.Node) and isinstance(v, fx.Node) and place[u] == place[v]:
            return u
        if isinstance(u, (list, tuple)) and isinstance(v, (list, tuple)) and len(u) == len(v):
            parts = [merge(*pair) for pair in zip(u, v, strict=True)]
            return parts if isinstance(u, list) else tuple(parts)
        if isinstance(u, dict) and isinstance(v, dict) and u.keys() == v.keys():
            return {k: merge(u[k], v[k]) for k in u}
        if isinstance(u, slice) and isinstance(v, slice):
            ends = [(u.start, v.start), (u.stop, v.stop), (u.step, v.step)]
            return slice(*(merge(*pair) for pair in ends))
        if isinstance(u, bool) and isinstance(v, bool) and u is not v:
            return flag(u)
        if type(u) is not type(v) or isinstance(u, fx.Node) or not (u is v or u == v):
            raise _Differ
        return u

    for node, other in zip(nodes, others, strict=True):
        if (node.op, node.target) != (other.op, other.target):
            raise _Differ
        args, kwargs = merge(node.args, other.args), merge(node.kwargs, other.kwargs)
        if flags:
            node.args, node.kwargs = args, kwargs
    if flags and not flags[False].users:
        graph.erase_node(flags[False])


def set_forward(module: nn.Module, graph: fx.Graph) -> None:
    """Make ``graph`` the forward of ``module``."""
    graph.lint()
    if isinstance(module, fx.GraphModule):
        module.recompile()
        return
    code = graph.python_code("self")
    used = _compile(code.src, type(module)).co_consts
    names = {n for c in used if isinstance(c, CodeType) for n in c.co_names}
    known = {k: _Module(v) if isinstance(v, ModuleType) else v for k, v in code.globals.items()}
    known = {k: v for k, v in known.items() if k in names}
    module.__class__ = _make_class(type(module), code.src, known)


class _Module:
    """A module of Python's, stored by name."""

    def __init__(self, module: ModuleType):
        self.name = module.__name__


def _compile(source: str, base: type) -> CodeType:
    name = f"<forward of {base.__qualname__}, converted {hash(source):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def _make_class(base: type, source: str, known: dict[str, Any]) -> type:
    scope: dict[str, Any] = {
        k: importlib.import_module(v.name) if isinstance(v, _Module) else v
        for k, v in known.items()
    }
    exec(_compile(source, base), scope)
    stored = {"__module__": base.__module__, "__qualname__": base.__qualname__}
    made = {"forward": scope["forward"], "__reduce_ex__": _reduce, "_made_of": (source, known)}
    return type(base.__name__, (base,), {**stored, "__doc__": base.__doc__, **made})


def _reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    state = self.__getstate__() if hasattr(self, "__getstate__") else vars(self)
    return _rebuild, (type(self).__mro__[1], *self._made_of), state


def _rebuild(base: type[nn.Module], source: str, known: dict[str, Any]) -> nn.Module:
    cls: Any = _make_class(base, source, known)
    return cls.__new__(cls)
