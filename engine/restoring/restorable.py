"""What a checkpoint may hold: a closed list of classes, the types of their attributes, and of what may be
called.

    engine.rows.buffer.RowBuffer                  a class, and what each of its attributes may be
        base: int
        data: array(int64, 1) | array(uint8, 1)
        valid?: None | array(uint8, 1)          ? not always there
    engine.flow.scheduler.Ready.add(engine.results.sink.Sink | ...)      what may be called, and with what

`restorable.txt` has it, written by `tests/write_restorable.py` from the types that mypy finds and from the
arrays that engines have. What is not there is neither written nor restored. Each line is compiled to a
function when an object of its class comes along.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import types
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

Fits = Callable[[Any], bool]
"""Whether a value has the type."""

PLAIN: dict[str, type] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "bytes": bytes,
    "None": type(None),
    "count": itertools.count,
    "range": range,
    "dtype": np.dtype,
}
MANY: dict[str, type] = {"list": list, "deque": deque, "set": set, "frozenset": frozenset}
PAIRS: dict[str, type] = {"dict": dict, "Counter": Counter, "weak": WeakKeyDictionary}
ARROW: dict[str, type] = {
    "arrow": pa.Array,
    "batch": pa.RecordBatch,
    "table": pa.Table,
    "schema": pa.Schema,
    "type": pa.DataType,
    "value": pa.Scalar,
    "scalar": np.generic,
}
PACKAGE = "penstock."
ERRORS = "engine.rows.errors"
"""Where errors are, which call themselves `penstock.DataError`, as users do."""


class Unknown(LookupError):
    """What a checkpoint names or holds is not on the list."""


class Attributes(NamedTuple):
    """Of a class: what must be there, and the type of all that may."""

    needed: frozenset[str]
    fits: dict[str, Fits]


class Restorable:
    """The list, as read from its text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, list[str]] = {}
        self._aliases: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        held: list[str] = []
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            if line[0] == " ":
                held.append(line.strip())
            elif " = " in line:
                alias, _, of = line.partition(" = ")
                self._aliases[alias] = of
            elif line.endswith(")"):
                name, _, takes = line[:-1].partition("(")
                self._calls[name] = takes
            else:
                held = self._lines[line] = []
        self._fits: dict[str, Fits] = {}

    def __contains__(self, made: type) -> bool:
        return name_of(made) in self._lines

    def names(self) -> list[str]:
        return list(self._lines)

    def lines_of(self, name: str) -> list[str]:
        """What the list says of a class."""
        return self._lines[name]

    @functools.cache  # noqa: B019 - one list for the whole process
    def class_named(self, name: str) -> type:
        """A class on the list by its name, as `name_of` gives it."""
        if name not in self._lines:
            raise Unknown(f"Expected a class that can be restored, found `{name}`")
        return found(name)

    @functools.cache  # noqa: B019
    def attributes(self, made: type) -> Attributes:
        lines = self._lines.get(name_of(made))
        if lines is None:
            raise Unknown(f"Expected a class that can be restored, found `{made.__qualname__}`")
        fits, needed = {}, set()
        for line in lines:
            name, _, kind = line.partition(": ")
            plain = name.rstrip("?")
            if not name.endswith("?"):
                needed.add(plain)
            fits[plain] = self.fits(kind)
        return Attributes(frozenset(needed), fits)

    def check(self, made: type, held: dict[str, Any]) -> None:
        """Raise Unknown unless an object of the class may hold this."""
        needed, fits = self.attributes(made)
        if not held.keys() >= needed:
            raise Unknown(f"Expected `{made.__qualname__}` with {sorted(needed - held.keys())}")
        for name, value in held.items():
            known = fits.get(name)
            if known is None or not known(value):
                raise Unknown(f"Expected another `{name}` of `{made.__qualname__}`, found {words_for(value)}")

    def is_function(self, name: str) -> bool:
        return name in self._calls

    def function(self, name: str) -> Any:
        """A function that may be called, by the name that `name_of` gives it."""
        if name not in self._calls:
            raise Unknown(f"Expected a function that can be restored, found `{name}`")
        return found(name)

    def check_call(self, value: Any) -> None:
        """Raise Unknown unless it is something to be called, with arguments that it takes."""
        function, given = unfolded(value)
        takes = self._calls.get(function)
        if takes is None:
            raise Unknown(f"Expected what may be called, found `{function}`")
        types = [self.fits(one) for one in takes.split("; ")] if takes else []
        if len(given) > len(types) or not all(fits(one) for fits, one in zip(types, given, strict=False)):
            raise Unknown(f"Expected `{function}` with other arguments")

    def fits(self, text: str) -> Fits:
        """A function that says whether a value has the type."""
        fits = self._fits.get(text)
        if fits is None:
            fits = self._fits[text] = self._compiled(ast.parse(text, mode="eval").body)
        return fits

    def _compiled(self, tree: ast.expr) -> Fits:
        match tree:
            case ast.BinOp():
                return either(*map(self._compiled, options(tree)))
            case ast.Constant(value=None):
                return Exactly(type(None))
            case ast.Constant(value=value):
                return lambda one: type(one) is type(value) and one == value
            case ast.Name(id="array"):
                return lambda one: type(one) is np.ndarray and not one.dtype.hasobject
            case ast.Name(id="error"):
                return functools.partial(_is_a, Exception)
            case ast.Name(id="anything"):
                return lambda one: True
            case ast.Name(id="never"):
                return lambda one: False
            case ast.Name(id="float"):  # an int may stand for one
                return either(Exactly(float), Exactly(int))
            case ast.Name(id=name) if name in PLAIN:
                return Exactly(PLAIN[name])
            case ast.Name(id=name) if name in ARROW:
                return functools.partial(_is_a, ARROW[name])
            case ast.Name(id=name):
                return self.fits(self._aliases[name])
            case ast.Attribute():
                return functools.partial(_is_a, found(ast.unparse(tree)))
            case ast.Subscript(value=ast.Name(id="tuple"), slice=inner):
                return self._row(inner)
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in MANY:
                return many(MANY[name], self._compiled(inner))
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[key, held])):
                return pairs(PAIRS[name], self._compiled(key), self._compiled(held))
            case ast.Call(func=ast.Name(id="array"), args=[dtype, ast.Constant(value=ndim)]):
                wanted = np.dtype(ast.unparse(dtype))  # of another one kernels would be compiled, or overflow
                return lambda one: type(one) is np.ndarray and one.dtype == wanted and one.ndim == ndim
            case ast.Call(func=ast.Name(id="call"), args=[name, ast.Constant(value=int(given))]):
                return functools.partial(_is_call, ast.unparse(name), given)
        raise ValueError(ast.unparse(tree))

    def _row(self, inner: ast.expr) -> Fits:
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...:
            return many(tuple, self._compiled(parts[0]))
        each = [self._compiled(one) for one in parts]

        def is_row(value: Any) -> bool:
            return (
                type(value) is tuple
                and len(value) == len(each)
                and all(fits(one) for fits, one in zip(each, value, strict=True))
            )

        return is_row


def is_callable(value: Any) -> bool:
    made = type(value)
    return made in (functools.partial, types.MethodType, types.FunctionType, types.BuiltinMethodType)


def unfolded(value: Any) -> tuple[str, list[Any]]:
    """The name of the function that a callable comes down to, and the arguments it has already."""
    if isinstance(value, functools.partial):
        if value.keywords:
            raise Unknown("Expected no keywords in what may be called")
        function, given = unfolded(value.func)
        return function, [*given, *value.args]
    if isinstance(value, types.MethodType):
        return name_of(value.__func__), [value.__self__]
    if isinstance(value, types.BuiltinMethodType):
        return f"{type(value.__self__).__name__}.{value.__name__}", [value.__self__]
    return name_of(value), []


def _is_call(name: str, count: int, value: Any) -> bool:
    """Whether it comes down to a function with so many arguments given already."""
    if not is_callable(value):
        return False
    function, given = unfolded(value)
    return function == name and len(given) == count


@functools.lru_cache(maxsize=4096)
def name_of(value: Any) -> str:
    """Of a class or function, as the list has it."""
    module = ERRORS if value.__module__ == PACKAGE.rstrip(".") else value.__module__
    return f"{module}.{value.__qualname__}".removeprefix(PACKAGE)


def found(name: str) -> Any:
    """What has this name: of a module, the class in it or its function, or the method of the class."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            one: Any = importlib.import_module(PACKAGE + ".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            one = getattr(one, part)
        return one
    raise Unknown(f"Expected a module of Penstock, found `{name}`")


def options(tree: ast.expr) -> list[ast.expr]:
    """Of `a | b | c` the three."""
    if isinstance(tree, ast.BinOp):
        return options(tree.left) + options(tree.right)
    return [tree]


@dataclass(frozen=True, slots=True)
class Exactly:
    """Whether a value is of this very class."""

    made: type

    def __call__(self, value: Any) -> bool:
        return type(value) is self.made


def _is(value: Any, made: type) -> bool:
    return type(value) is made


def _is_many_of(made: type, only: set[type], value: Any) -> bool:
    return _is(value, made) and set(map(type, value)) <= only


def _is_many(made: type, item: Fits, value: Any) -> bool:
    return _is(value, made) and all(map(item, value))


def _is_pairs(made: type, key: Fits, held: Fits, value: Any) -> bool:
    return _is(value, made) and all(map(key, value)) and all(map(held, value.values()))


def _is_a(made: type, value: Any) -> bool:
    return isinstance(value, made)


def either(*each: Fits) -> Fits:
    """One of several types; which of them are classes is known beforehand, and quickly looked up."""
    exact = frozenset(fits.made for fits in each if isinstance(fits, Exactly))
    classes = tuple(
        fits.args[0] for fits in each if isinstance(fits, functools.partial) and fits.func is _is_a
    )
    others = [
        fits for fits in each if not isinstance(fits, Exactly) and getattr(fits, "func", None) is not _is_a
    ]

    def is_one(value: Any) -> bool:
        return type(value) in exact or isinstance(value, classes) or any(fits(value) for fits in others)

    return is_one


def many(made: type, item: Fits) -> Fits:
    """A container of things of one type; of plain ones their types are taken together, which is quick."""
    plain = getattr(item, "made", None)
    if plain is not None:
        return functools.partial(_is_many_of, made, {plain})
    return functools.partial(_is_many, made, item)


def pairs(made: type, key: Fits, held: Fits) -> Fits:
    return functools.partial(_is_pairs, made, key, held)


def words_for(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with {value.ndim} dimensions"
    return f"a `{type(value).__name__}`"


@functools.cache
def restorable() -> Restorable:
    """The list that Penstock has."""
    return Restorable(files(__package__).joinpath("restorable.txt").read_text())
