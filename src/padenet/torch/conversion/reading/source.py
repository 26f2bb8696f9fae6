"""The source of a function, as a tree that is checked against what runs, and code from a tree."""

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUTURE = 0x1FF0000  # the bits of co_flags that ``from __future__ import`` sets


class Source(NamedTuple):
    """``name`` is that of the class whose private names the function uses, "" outside of one."""

    tree: Function
    name: str
    function: FunctionType

    @property
    def shared(self) -> set[str]:
        """Names that a function inside sets here: their values are not known."""
        return _shared(self.tree)

    def private(self, name: str) -> str:
        """What the compiler makes of a name that begins with two underscores."""
        hidden = self.name and name.startswith("__") and not name.endswith("__")
        return f"_{self.name.lstrip('_')}{name}" if hidden else name


@lru_cache(maxsize=256)
def _shared(tree: Function) -> set[str]:
    return {n for node in ast.walk(tree) if isinstance(node, ast.Nonlocal) for n in node.names}


_read: dict[tuple[str, CodeType], Source | str] = {}


def read(function: FunctionType) -> Source | str:
    """The tree of ``function``; or why there is none."""
    code = function.__code__
    key = (code.co_filename, code)
    if key not in _read:
        _read[key] = _search(function)
    found = _read[key]
    return found if isinstance(found, str) else found._replace(function=function)


def _search(function: FunctionType) -> Source | str:
    code = function.__code__
    name = function.__qualname__.split(".")[-2:-1]
    owner = name[0] if name and name[0].isidentifier() else ""
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        return "its source cannot be read (typed at a prompt, or made by exec)"
    trees, imported = _parse("".join(lines))
    for tree in trees:
        first = min([tree.lineno, *(d.lineno for d in getattr(tree, "decorator_list", ()))])
        if first != code.co_firstlineno or getattr(tree, "name", "<lambda>") != code.co_name:
            continue
        whole = _wrap(bare(tree), owner, code.co_freevars, code, imported=imported)
        found = _inner(whole, code.co_name)
        if found is not None and _same(found, code):
            return Source(tree, owner, function)
    return "its source is not what runs"


@lru_cache(maxsize=64)
def _parse(text: str) -> tuple[tuple[Function, ...], tuple[str, ...]]:
    """The functions of a file, and the names that it imports: a call through one is other code."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return (), ()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    imported = [
        alias.asname or alias.name.partition(".")[0]
        for node in _outside(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if alias.name != "*"
    ]
    functions = tuple(node for node in ast.walk(tree) if isinstance(node, kinds))
    return functions, tuple(dict.fromkeys(imported))


def _outside(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module that are in no function and no class."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
            yield from _outside(node)


def bare(tree: Any) -> Any:
    """The function without what is evaluated outside of it: decorators, defaults, annotations."""
    args = tree.args
    plain = ast.arguments(
        **{
            kind: [ast.copy_location(ast.arg(a.arg), a) for a in getattr(args, kind)]
            for kind in ("posonlyargs", "args", "kwonlyargs")
        },
        vararg=args.vararg and ast.copy_location(ast.arg(args.vararg.arg), args.vararg),
        kwarg=args.kwarg and ast.copy_location(ast.arg(args.kwarg.arg), args.kwarg),
        defaults=[],
        kw_defaults=[None] * len(args.kwonlyargs),
    )
    same = ast.copy_location(type(tree)(**dict(ast.iter_fields(tree))), tree)
    same.args = plain
    if not isinstance(tree, ast.Lambda):
        same.decorator_list, same.returns = [], None
    return same


def _wrap(
    tree: Any,
    owner: str,
    free: tuple[str, ...],
    code: CodeType,
    name: str = "",
    imported: tuple[str, ...] = (),
) -> CodeType:
    """``tree`` compiled where it has the free names of a function and is in a class."""
    body: Any = ast.Expr(tree) if isinstance(tree, ast.Lambda) else tree
    bodies: list[Any] = [body]
    if owner:
        bodies = [_class(owner, body)]
        if owner not in free:  # elsewhere the class is a global
            bodies.insert(0, ast.Global([owner]))
    taken = [ast.arg(n) for n in free]
    args = ast.arguments([], taken, None, [], [], None, [])
    outer: Any = ast.FunctionDef("outer", args, bodies, [], None)
    if sys.version_info >= (3, 12):
        outer.type_params = []
    imports: list[Any] = [ast.Import([ast.alias(n)]) for n in imported]
    whole = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    flags = code.co_flags & FUTURE
    return compile(whole, name or code.co_filename, "exec", flags=flags, dont_inherit=True)


def _class(name: str, function: Any) -> Any:
    made: Any = ast.ClassDef(name, [], [], [function], [])
    if sys.version_info >= (3, 12):
        made.type_params = []
    return made


def _inner(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name:
                return constant
            found = _inner(constant, name)
            if found is not None:
                return found
    return None


def _same(one: CodeType, other: CodeType) -> bool:
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    if any(getattr(one, n) != getattr(other, n) for n in names):
        return False
    pairs = zip(one.co_consts, other.co_consts, strict=False)
    return len(one.co_consts) == len(other.co_consts) and all(
        _same(u, v) if isinstance(u, CodeType) and isinstance(v, CodeType) else _equal(u, v)
        for u, v in pairs
    )


def _equal(u: Any, v: Any) -> bool:
    return type(u) is type(v) and repr(u) == repr(v)


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, in the order of the text."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from walk(child)


def text_of(source: Source, tree: Any) -> str:
    """A changed tree of ``source`` as text: a function in its class."""
    function = bare(tree)
    body = _class(source.name or "_", function)
    return ast.unparse(ast.fix_missing_locations(body))


def _cell_of(outer: FunctionType) -> int | None:
    """Which cell of a decorator's function holds what it decorates, if just one does."""
    inner: Any = getattr(outer, "__wrapped__", None)
    cells = outer.__closure__ or ()
    held = [i for i, c in enumerate(cells) if c != CellType() and c.cell_contents is inner]
    return held[0] if len(held) == 1 else None


def can_decorate(outer: Any, inner: FunctionType) -> bool:
    """``decorate`` can exchange ``inner`` under the decorators that made ``outer`` of it."""
    while outer is not inner:
        if not isinstance(outer, FunctionType) or _cell_of(outer) is None:
            return False
        outer = outer.__wrapped__  # type: ignore[attr-defined]
    return True


def decorate(outer: Any, inner: FunctionType, made: FunctionType) -> FunctionType:
    """``outer`` with ``made`` where it calls ``inner``: no decorator is run again."""
    if outer is inner:
        return made
    new = decorate(outer.__wrapped__, inner, made)
    cells = list(outer.__closure__)
    place = _cell_of(outer)
    assert place is not None
    cells[place] = CellType(new)
    code, scope = outer.__code__, outer.__globals__
    copied = FunctionType(code, scope, outer.__name__, outer.__defaults__, tuple(cells))
    return _dress(copied, outer, {"__wrapped__": new})


def _dress(made: FunctionType, original: Any, more: dict[str, Any]) -> FunctionType:
    for attribute in ("__kwdefaults__", "__annotations__", "__doc__", "__qualname__", "__module__"):
        setattr(made, attribute, getattr(original, attribute))
    made.__dict__.update({**vars(original), **more})
    return made


def make(text: str, original: FunctionType, label: str) -> FunctionType:
    """The function that ``text`` is, with the globals, closure and defaults of ``original``."""
    (holder,) = ast.parse(text).body
    assert isinstance(holder, ast.ClassDef)
    (tree,) = holder.body
    name = f"<{label}, converted {hash(text):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    old = original.__code__
    private = holder.name if original.__qualname__.count(".") else ""
    code = _inner(_wrap(tree, private, old.co_freevars, old, name), old.co_name)
    assert code is not None
    cells = dict(zip(old.co_freevars, original.__closure__ or (), strict=True))
    closure = tuple(cells[n] for n in code.co_freevars)
    made = FunctionType(code, original.__globals__, old.co_name, original.__defaults__, closure)
    return _dress(made, original, {})
