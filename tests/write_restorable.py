"""Writes `restorable.txt`: what a checkpoint may hold. Run it when a class that engines have changes.

    python tests/write_restorable.py                   the types of attributes, anew
    python tests/write_restorable.py test_x.py ...     and what engines hold that these tests write down

The types are those that mypy finds, for every class that can be reached from an Engine's attributes. Where
they leave something open (an array's dtype, a pyarrow class, which function is called), it is what was met in
engines: `restorable_seen.json` has that, and the second form adds to it.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import functools
import json
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.draw import draw_script
from fuzz.drive import Drive
from mypy import build
from mypy.main import process_options
from mypy.nodes import Decorator, TypeInfo, Var
from mypy.state import state
from mypy.subtypes import is_subtype
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    TupleType,
    Type,
    UnionType,
    get_proper_type,
)

import penstock
from penstock.engine.checkpoints import checkpoint, object_graph
from penstock.engine.checkpoints.object_graph import attributes_of, has_own_state, is_value
from penstock.engine.restoring.restorable import (
    ARROW,
    MANY,
    PACKAGE,
    PAIRS,
    Fits,
    Restorable,
    found,
    is_callable,
    name_of,
    unfolded,
)
from penstock.engine.rows.array_memory import Room

HERE = Path(__file__).parent
TABLE = HERE.parent / "engine" / "restoring" / "restorable.txt"
SEEN = HERE / "restorable_seen.json"
ROOT = "penstock.api.Engine"
HOLDERS = tuple(
    f"{PACKAGE}{one}"
    for one in ("engine.", "optimizer.", "adapt", "api", "memory_options", "query", "running_clock")
)
NEVER_KEPT = {
    "penstock.api.Engine._turns", "penstock.api.Engine._note", "penstock.engine.rows.array_memory.Room",
}  # fmt: skip
SEQUENCES = {"typing.Sequence", "typing.Collection", "typing.Iterable", "typing.Container"}
NAMES = {
    "builtins.int": "int", "builtins.float": "float", "builtins.bool": "bool", "builtins.str": "str",
    "builtins.bytes": "bytes", "itertools.count": "count", "builtins.range": "range",
    "builtins.Exception": "error", "builtins.BaseException": "error",
}  # fmt: skip
CONTAINERS = {
    "builtins.list": "list", "collections.deque": "deque", "builtins.set": "set",
    "builtins.frozenset": "frozenset", "builtins.dict": "dict", "weakref.WeakKeyDictionary": "weak",
    "typing.Mapping": "dict", "typing.MutableMapping": "dict", "typing.AbstractSet": "set",
}  # fmt: skip
Seen = dict[str, list[str]]


class Table:
    """Classes, the types of their attributes as text, and who else is reached from there."""

    def __init__(self, seen: Seen, *, is_open: bool = False) -> None:
        """is_open: all classes, with open places where types leave something open."""
        self._is_open = is_open
        self.places: list[str] = []
        sources, options = process_options([], require_targets=False)
        options.incremental = False
        options.preserve_asts = True
        built = build.build(sources, options)
        self._files = built.files
        self._seen = seen
        self._ours = {info.fullname: info for info in self._classes()}
        self._wanted = list(self._ours) if is_open else [ROOT, *self._errors()]
        self.classes: dict[str, dict[str, str]] = {}
        self.aliases: dict[str, str] = {}
        self.calls: dict[str, str] = {}
        while self._wanted:
            name = self._wanted.pop()
            if name not in self.classes and name not in NEVER_KEPT:
                self._add(self._ours[name])
        self._add_calls()

    def _classes(self) -> Iterator[TypeInfo]:
        for name, file in self._files.items():
            if name.startswith(HOLDERS) and "calibrate" not in name:
                for symbol in file.names.values():
                    node = symbol.node
                    if (
                        isinstance(node, TypeInfo)
                        and node.module_name == name
                        and not set("<@") & set(node.fullname)
                    ):
                        yield node

    def _errors(self) -> list[str]:
        """What a query may have failed with."""
        return [name for name in self._ours if name.startswith(f"{PACKAGE}engine.rows.errors.")]

    def _add(self, info: TypeInfo) -> None:
        held = self.classes[info.fullname] = {}
        short = info.fullname.removeprefix(PACKAGE)
        if info.is_protocol or info.is_enum:
            return
        begin = f"{short}: "
        met = {key.removeprefix(begin).split(" ")[0] for key in self._seen if key.startswith(begin)}
        always = set(self._seen.get(f"{short}:: always", ()))
        is_met = f"{short}:: always" in self._seen
        for name, kind, is_sure in attributes(info):
            if f"{info.fullname}.{name}" in NEVER_KEPT:
                continue
            needed = is_sure and (name in always or not is_met)
            at = f"{short}: {name}"
            held[name if needed else f"{name}?"] = joined([self._text(kind, f"{at} ."), *self._more(at)])
        for name in sorted(met - {one.rstrip("?") for one in held}):
            more = self._more(f"{short}: {name}")
            if more:  # else it had the attribute once
                held[name if name in always else f"{name}?"] = joined(more)
        for other in self._ours.values():  # what is made from it can stand in its place
            if info in other.mro[1:]:
                self._wanted.append(other.fullname)

    def _text(self, given: Type, path: str) -> str:
        """A type as the list has it; `path` says where what was seen is noted."""
        kind = get_proper_type(given)
        match kind:
            case NoneType():
                return "None"
            case UnionType():
                parts = [self._text(one, f"{path} |{n}") for n, one in enumerate(kind.items)]
                return joined(parts)
            case LiteralType():
                return repr(kind.value)
            case TupleType():
                fallback = kind.partial_fallback.type.fullname
                if fallback != "builtins.tuple":
                    return self._named(fallback)
                if not kind.items:
                    return "tuple[anything, ...]"
                parts = [self._text(one, f"{path} {n}") for n, one in enumerate(kind.items)]
                return f"tuple[{', '.join(parts)}]"
            case AnyType():
                return self._open(path, "anything")
            case CallableType() if not self._is_open:
                return joined([*self._more(path), *self._calls_of(path)])
            case Instance():
                return self._name(kind, path)
        return self._open(path)

    def _name(self, kind: Instance, path: str = "") -> str:
        full = kind.type.fullname
        inner = [self._text(one, f"{path} {n}") for n, one in enumerate(kind.args)]
        if full in NAMES:
            return NAMES[full]
        if full == "builtins.tuple":
            return f"tuple[{inner[0]}, ...]"
        if full == "collections.Counter":
            return f"Counter[{inner[0]}, int]"
        if full in CONTAINERS:
            return f"{CONTAINERS[full]}[{', '.join(inner)}]"
        if full in SEQUENCES:
            return joined([f"list[{inner[0]}]", f"tuple[{inner[0]}, ...]"])
        if full == "numpy.ndarray":
            return self._array(kind, path)
        if full.startswith("numpy."):
            return "scalar"
        return self._named(full) if full in self._ours else self._open(path)

    def _named(self, full: str) -> str:
        info = self._ours[full]
        short = full.removeprefix(PACKAGE)
        if info.is_protocol:
            alias = info.name
            if alias not in self.aliases:
                self.aliases[alias] = ""
                found = [one for one in self._ours.values() if fills(one, info)]
                self._wanted += [one.fullname for one in found]
                names = sorted(one.fullname.removeprefix(PACKAGE) for one in found)
                self.aliases[alias] = " | ".join(names) or "never"
            return alias
        self._wanted.append(full)
        return short

    def _array(self, kind: Instance, path: str) -> str:
        dtype, ndim = dtype_of(kind), ndim_of(kind)
        found = [f"array({dtype}, {ndim})"] if dtype and ndim else []
        if found or self._is_open:
            return joined(found) if found else self._open(f"{path}[]", "array")
        return joined(self._more(f"{path}[]") or ["array"])

    def _calls_of(self, path: str) -> list[str]:
        """What was met under this name, in this class or another: attributes of one name are called alike."""
        name = attribute_of(path)
        alike = [key for key in self._seen if attribute_of(key) == name] if name else [path]
        return [text for key in alike for text in self._more(key) if text.startswith("call(")]

    def _open(self, path: str, unless: str = "never") -> str:
        """What was met in engines; `unless` there were none."""
        if self._is_open:
            self.places.append(path)
            return f"open_{len(self.places) - 1}"
        found = self._more(path)
        if set(found) & ARROW.keys():  # one kind was met, others may come
            found = [*dict.fromkeys([*found, *ARROW, "None"])]
        return joined(found or [unless])

    def _more(self, path: str) -> list[str]:
        """What was met in engines."""
        for one in self._seen.get(path, ()):
            self._note(one)
        return list(self._seen.get(path, ()))

    def _note(self, text: str) -> None:
        for word in text.replace("[", " ").replace("]", " ").replace(",", " ").replace("(", " ").split():
            if PACKAGE + word in self._ours:
                self._wanted.append(PACKAGE + word)
        if text.startswith("call("):
            self.calls.setdefault(text.removeprefix("call(").partition(",")[0], "")

    def _add_calls(self) -> None:
        done: set[str] = set()
        while waiting := self.calls.keys() - done:
            name = min(waiting)
            done.add(name)
            self.calls[name] = "; ".join(self._takes(name))

    def _takes(self, name: str) -> Iterator[str]:
        """The types of what is given to a function."""
        if name == "list.append":
            yield from ("list[engine.results.sink.Sink]", "engine.results.sink.Sink")
            return
        kind = self._function(name)
        for number, one in enumerate(kind.arg_types):
            if number == 0 and kind.arg_names[0] == "self":
                yield name.rpartition(".")[0]
            else:
                yield self._text(one, f"{name}: {number}")

    def _function(self, name: str) -> CallableType:
        owner, _, last = (PACKAGE + name).rpartition(".")
        node = self._ours[owner].get(last) if owner in self._ours else self._files[owner].names[last]
        assert node is not None
        found = get_proper_type(node.type)
        assert isinstance(found, CallableType), name
        return found

    def lines(self) -> Iterator[str]:
        yield "# Written by tests/write_restorable.py; see restorable.py."
        for alias, of in sorted(self.aliases.items()):
            yield f"{alias} = {of}"
        for name, takes in sorted(self.calls.items()):
            yield f"{name}({takes})"
        for full, held in sorted(self.classes.items()):
            if not self._ours[full].is_protocol:
                yield full.removeprefix(PACKAGE)
                for name, kind in sorted(held.items()):
                    yield f"    {name}: {kind}"


def attribute_of(path: str) -> str:
    """The name of the attribute that a place belongs to; nothing for arguments of functions."""
    name = path.partition(": ")[2].split(" ")[0]
    return name if name.isidentifier() else ""


def attributes(info: TypeInfo) -> Iterator[tuple[str, Type, bool]]:
    """Names and types of what objects of a class hold, and whether all are sure to have it."""
    names: dict[str, Any] = {}
    for one in reversed(info.mro):
        if one.fullname.startswith(PACKAGE) and not one.is_protocol:
            names |= one.names
    for name, symbol in names.items():
        node = symbol.node
        if "-" in name or name.startswith(("__", "_field")):  # mypy's own
            continue
        if isinstance(node, Var) and not node.is_classvar and node.type:
            yield name, node.type, not node.is_initialized_in_class
        elif isinstance(node, Decorator) and is_cached(node):
            kind = get_proper_type(node.func.type)
            assert isinstance(kind, CallableType)
            yield name, kind.ret_type, False


def is_cached(node: Decorator) -> bool:
    return any("cached_property" in str(one) for one in node.original_decorators)


def fills(info: TypeInfo, protocol: TypeInfo) -> bool:
    """Whether a class has what a protocol asks for."""
    if info.is_protocol:
        return False
    with state.strict_optional_set(True):
        return is_subtype(Instance(info, []), Instance(protocol, []))


def joined(parts: list[str]) -> str:
    each = list(dict.fromkeys(one for part in parts for one in split(part)))
    each = [one for one in each if one != "never"] or ["never"]
    each.sort(key=lambda one: one.startswith("open_"))
    return " | ".join(["None", *(one for one in each if one != "None")] if "None" in each else each)


def split(text: str) -> list[str]:
    """Of `a | b[c | d]` the two."""
    parts, depth, last = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and not depth:
            parts.append(text[last:at].strip())
            last = at + 1
    return [*parts, text[last:].strip()]


def dtype_of(kind: Instance) -> str | None:
    of = get_proper_type(kind.args[1])
    scalar = get_proper_type(of.args[0]) if isinstance(of, Instance) and of.args else None
    if not isinstance(scalar, Instance):
        return None
    begin = {"signedinteger": "int", "unsignedinteger": "uint", "floating": "float"}.get(scalar.type.name)
    if scalar.type.name in ("bool", "bool_"):
        return "bool"
    bits = str(scalar.args[0]) if scalar.args else ""
    digits = "".join(one for one in bits.rpartition("._")[2] if one.isdigit())
    if scalar.type.name == "float64":
        return "float64"
    return f"{begin}{digits}" if begin and digits else None


def ndim_of(kind: Instance) -> int | None:
    shape: ProperType = get_proper_type(kind.args[0])
    return len(shape.items) if isinstance(shape, TupleType) else None


# -- what is met in engines ----------------------------------------------------------------------------


class Meeting(Restorable):
    """The list with places left open, which note what is there."""

    def __init__(self, table: Table, seen: Seen) -> None:
        super().__init__("\n".join(table.lines()))
        self._places = table.places
        self.seen = {key: dict.fromkeys(values) for key, values in seen.items()}

    def _compiled(self, tree: ast.expr) -> Fits:
        if isinstance(tree, ast.Name) and tree.id.startswith("open_"):
            return functools.partial(self._note, self._places[int(tree.id.removeprefix("open_"))])
        if isinstance(tree, ast.Name) and tree.id == "error":
            return lambda value: isinstance(value, Exception)
        return super()._compiled(tree)

    def _note(self, place: str, value: Any) -> bool:
        if place.endswith("[]") and not isinstance(value, np.ndarray):
            return False
        self.seen.setdefault(place, {})[kind_of(value)] = None
        if is_callable(value):
            name, given = unfolded(value)
            for number, one in enumerate(given):
                if is_callable(one):
                    self.seen.setdefault(f"{name}: {number}", {})[kind_of(one)] = None
        return True

    def __contains__(self, made: type) -> bool:
        return f"{made.__module__}.".startswith(PACKAGE)

    def is_function(self, name: str) -> bool:
        return "<" not in name

    def function(self, name: str) -> Any:
        return found(name)

    def check_call(self, value: Any) -> None:
        pass

    def check(self, made: type, held: dict[str, Any]) -> None:
        pass

    def look(self, made: type, held: dict[str, Any]) -> None:
        key = f"{name_of(made)}:: always"
        now = self.seen.get(key)
        self.seen[key] = dict.fromkeys(held if now is None else [one for one in now if one in held])
        fits = self.attributes(made).fits
        for name, value in held.items():
            at = f"{name_of(made)}: {name}"
            self.seen.setdefault(at, {})
            value = without_room(value)
            if name not in fits or not fits[name](value):
                self.seen[at][kind_of(value)] = None


def without_room(value: Any) -> Any:
    if isinstance(value, Room):
        return value.array
    return tuple(map(without_room, value)) if type(value) is tuple else value


def kind_of(value: Any) -> str:
    """The type of a value as the list has it."""
    if isinstance(value, Room):
        value = value.array
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.ndim})"
    if is_callable(value):
        name, given = unfolded(value)
        return f"call({name}, {len(given)})"
    for name, made in ARROW.items():
        if isinstance(value, made):
            return name
    made = type(value)
    if made is tuple:
        return "tuple[anything, ...]"
    for name, one in MANY.items():
        if made is one:
            return f"{name}[anything]"
    for name, one in PAIRS.items():
        if made is one:
            return f"{name}[anything, anything]"
    if made is np.dtype or isinstance(value, np.dtype):
        return "dtype"
    if made.__module__ in ("builtins", "itertools"):
        return "None" if value is None else "error" if isinstance(value, Exception) else made.__name__
    return name_of(made)


def meet(arguments: list[str], seen: Seen) -> Seen:
    """Run tests and look at every engine that they have, or write down."""
    meeting = Meeting(Table(seen, is_open=True), seen)

    class Looking(object_graph.Walk):
        def take(self, root: object) -> int:
            number = super().take(root)
            for value in self._met:
                made = type(value)
                if f"{made.__module__}.".startswith(PACKAGE) and not isinstance(
                    value, type | Room | enum.Enum
                ):
                    held = value.__getstate__() if has_own_state(value) else attributes_of(value)
                    if hasattr(value, "_asdict"):
                        held = value._asdict()
                    elif is_value(made) and dataclasses.is_dataclass(made):
                        held = {one.name: held[one.name] for one in dataclasses.fields(made) if one.init}
                    if isinstance(held, dict):
                        meeting.look(made, held)
            return number

    class WritesDown:
        """Every engine of a test, before it is closed and when the test is over."""

        def __init__(self) -> None:
            self._engines: weakref.WeakSet[penstock.Engine] = weakref.WeakSet()
            begin, close = penstock.Engine.__init__, penstock.Engine.close

            def begins(engine: penstock.Engine, *args: Any, **options: Any) -> None:
                begin(engine, *args, **options)
                self._engines.add(engine)

            def closes(engine: penstock.Engine, **how: Any) -> None:
                self._write(engine)
                close(engine, **how)

            penstock.Engine.__init__ = begins  # type: ignore[method-assign]
            penstock.Engine.close = closes  # type: ignore[method-assign]

        def _write(self, engine: penstock.Engine) -> None:
            if hasattr(engine, "_turns"):
                with contextlib.suppress(Exception):
                    engine.checkpoint_bytes()

        def pytest_runtest_teardown(self) -> None:
            for engine in list(self._engines):
                self._write(engine)
            self._engines.clear()

    checkpoint.Walk = Looking  # type: ignore[misc]
    checkpoint.restorable = lambda: meeting  # type: ignore[assignment]
    tests = [argument for argument in arguments if argument != "drawn"]
    if len(tests) < len(arguments):
        draw(150)
    if tests:
        pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not slow", *tests], plugins=[WritesDown()])
    return {key: list(values) for key, values in meeting.seen.items()}


def draw(count: int) -> None:
    """Engines as scripts make them, written down after each step."""
    for seed in range(count):
        script = draw_script(seed)
        with contextlib.suppress(Exception):
            drive = Drive(script)
            for step in script.steps:
                drive.do(step, lambda *_: None)
                drive.engine.checkpoint_bytes()


def main() -> None:
    seen: Seen = json.loads(SEEN.read_text()) if SEEN.exists() else {}
    if len(sys.argv) > 1:
        seen = meet(sys.argv[1:], seen)
    table = Table(seen)
    TABLE.write_text("".join(f"{line}\n" for line in table.lines()))
    SEEN.write_text(json.dumps(seen, indent=0, sort_keys=True) + "\n")
    print(f"{len(table.classes)} classes, {len(table.calls)} calls")


if __name__ == "__main__":
    main()
