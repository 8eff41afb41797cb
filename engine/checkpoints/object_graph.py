"""What an engine holds, as records and buffers, and back: for checkpoints.

    engine --> Walk --> records (a list each, of small values and numbers of other records) + buffers (bytes)
    engine <-- Build <--                                                          (object_builder.py)

Every object is one record, numbered when it is first met; whatever refers to it has its number. So what two
places have in common stays common, and circles are no trouble. Kept are None, numbers, texts and containers;
numpy arrays as their bytes, of a `Room` only what is used; Arrow data as IPC; objects of our own classes by
their attributes, or by what `__getstate__` gives; functions and methods by name. Anything else is refused
with the place where it is.

What compares by value (a plan node, a tuple) can be a key in a dict. It has to be whole before it is put
there, so its parts have lower numbers than itself and it is built first to last. All else is made empty, then
filled; dicts and sets last.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import struct
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from penstock.engine.restoring.restorable import Restorable, name_of
from penstock.engine.rows.array_memory import ArrayMemory, Buffer, Room
from penstock.engine.rows.errors import UsageError

CONSTANTS = frozenset({type(None), bool, int, float, str, bytes})
CONTAINERS: dict[str, type] = {
    "list": list,
    "deque": deque,
    "dict": dict,
    "counter": Counter,
    "weak": WeakKeyDictionary,
    "set": set,
}
MAPPINGS = (dict, Counter, WeakKeyDictionary)
PLURALS: dict[str, Callable[[Iterable[Any]], Any]] = {"tuple": tuple, "frozenset": frozenset}
KINDS = {made: kind for kind, made in (CONTAINERS | PLURALS).items()}
INT64 = range(-(2**63), 2**64)

Record = list[Any]


def attributes_of(value: object) -> dict[str, Any]:
    """What an object remembers, by name: its own attributes and its slots."""
    found = dict(getattr(value, "__dict__", ()))
    made: type = type(value)
    for name in slots_of(made):
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return found


@functools.cache
def slots_of(made: type) -> tuple[str, ...]:
    """The names of the slots of a class and those it is made from."""
    names: list[str] = []
    for one in made.__mro__:
        slots = one.__dict__.get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in dict.fromkeys(names) if name not in ("__dict__", "__weakref__"))


def has_own_state(value: object) -> bool:
    """Whether a class says itself what is to be kept; dataclasses with slots only seem to."""
    return type(value).__getstate__ is not object.__getstate__ and not dataclasses.is_dataclass(value)


def is_value(made: type) -> bool:
    """Whether objects of a class are told apart by what they hold, and so may be keys."""
    return made.__hash__ is not None and made.__hash__ is not object.__hash__


class Walk:
    """Writes objects down. After `take`: `records`, `buffers`, and `memory` of the arrays."""

    def __init__(self, known: Restorable) -> None:
        """known: which classes and functions can be restored; others are refused."""
        self._known = known
        self.records: list[Record] = []
        self.buffers: list[Buffer] = []
        self._memory = ArrayMemory()
        self._numbers: dict[int, int] = {}
        self._constants: dict[tuple[type, Any], int] = {}
        self._met: list[object] = []
        """Whatever has a number lives until all is written, lest another be taken for it."""
        self._wholes: dict[tuple[Any, ...], int] = {}
        self._values: dict[type, tuple[int, tuple[str, ...]]] = {}
        """Classes of objects that compare by value: their names, and what objects are made of. The rest
        follows from that; a hash, say, is another one in the next process."""
        self._open: deque[tuple[int, Any]] = deque()
        """Met, numbered, and still to be looked into."""
        self._where = ""

    def take(self, root: object) -> int:
        """Write down an object and all that can be reached from it. Returns its number."""
        number = self._number(root)
        while self._open:
            at, value = self._open.popleft()
            self._where = type(value).__name__
            made = type(value)
            if made in MAPPINGS:
                for key, held in value.items():
                    self.records[at] += (self._number(key), self._number(held))
            elif made in KINDS:
                self.records[at] += map(self._number, value)
            else:
                self._attributes(at, value)
        return number

    def arrays(self) -> list[Any]:
        """Where each array is in the buffers, which come to hold their memory; call it once, at the end."""
        return self._memory.lay_out(self.buffers)

    def _new(self, value: object, record: Record) -> int:
        number = self._numbers[id(value)] = len(self.records)
        self._met.append(value)
        self.records.append(record)
        return number

    def _whole(self, value: object, record: Record) -> int:
        """Of things that cannot change and have the same parts, one is written for all."""
        key = tuple(record)
        number = self._wholes.get(key)
        if number is None:
            number = self._wholes[key] = len(self.records)
            self.records.append(record)
        self._numbers[id(value)] = number
        self._met.append(value)
        return number

    def _number(self, value: Any) -> int:
        made = type(value)
        if made in CONSTANTS:
            return self._constant(made, value)
        number = self._numbers.get(id(value))
        if number is not None:
            return number
        if made in KINDS:
            return self._container(value, KINDS[made])
        if made in self._values:
            return self._value(value, made)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if self._is_ours(made):
            return self._own(value, made)
        return self._foreign(value, made)

    def _constant(self, made: type, value: Any) -> int:
        key = made, (struct.pack("d", value) if made is float else value)  # 0.0 is not -0.0
        number = self._constants.get(key)
        if number is None:
            number = self._constants[key] = len(self.records)
            is_wide = made is int and value not in INT64
            self.records.append(["wide", str(value)] if is_wide else ["", value])
        return number

    def _container(self, value: Any, kind: str) -> int:
        if kind in PLURALS:
            return self._whole(value, [kind, *map(self._number, value)])
        number = self._new(value, [kind])
        self._open.append((number, value))
        return number

    def _array(self, value: np.ndarray) -> int:
        if value.dtype.hasobject:
            return self._new(value, ["objects", list(value.shape), *map(self._number, value.ravel())])
        return self._new(value, ["array", self._memory.add(value)])

    def _room(self, value: Room) -> int:
        number = self._numbers.get(id(value.array))
        if number is not None:
            return number
        used = self._memory.add(value.array[: value.used])
        return self._new(value.array, ["room", used, len(value.array)])

    def _own(self, value: Any, made: type) -> int:
        """An object of our own: those that compare by value whole, others to be looked into later."""
        if made is Room:
            return self._room(value)
        if isinstance(value, enum.Enum):
            return self._new(value, ["enum", self._named(made), value.name])
        if isinstance(value, tuple):
            return self._whole(value, ["named", self._named(made), *map(self._number, value)])
        if isinstance(value, BaseException):
            return self._error(value, made)
        if is_value(made):
            if dataclasses.is_dataclass(made):
                given = tuple(field.name for field in dataclasses.fields(made) if field.init)
                self._values[made] = self._named(made), given
                return self._value(value, made)
            held = attributes_of(value)
            names = self._constant(str, " ".join(held))
            return self._whole(value, ["value", self._named(made), names, *map(self._number, held.values())])
        number = self._new(value, ["object", self._named(made)])
        self._open.append((number, value))
        return number

    def _value(self, value: Any, made: type) -> int:
        named, slots = self._values[made]
        held = [self._number(getattr(value, name)) for name in slots]
        return self._whole(value, ["value", named, self._constant(str, " ".join(slots)), *held])

    def _attributes(self, at: int, value: Any) -> None:
        held = value.__getstate__() if has_own_state(value) else attributes_of(value)
        numbers = []
        for name, one in held.items():
            self._where = f"{type(value).__name__}.{name}"
            numbers.append(self._number(one))
        self.records[at] += (self._constant(str, " ".join(held)), *numbers)

    def _foreign(self, value: Any, made: type) -> int:
        """What others have made: Arrow, numpy, functions, and a little of the standard library."""
        if isinstance(value, types.FunctionType):
            return self._new(value, ["function", self._named(value)])
        if isinstance(value, types.MethodType) or (
            isinstance(value, types.BuiltinMethodType) and type(value.__self__) in KINDS
        ):
            return self._new(value, ["method", self._number(value.__self__), value.__name__])
        if made is functools.partial:
            if value.keywords:
                raise self._refused("keywords of a function")
            return self._new(value, ["partial", *map(self._number, (value.func, *value.args))])
        if made is itertools.count:
            return self._new(value, ["count", *map(self._number, value.__reduce__()[1])])
        if isinstance(value, BaseException):
            return self._error(value, made)
        if isinstance(value, np.generic):
            return self._new(value, ["scalar", value.dtype.str, value.tobytes()])
        if isinstance(value, np.dtype):
            return self._new(value, ["dtype", value.str])
        if made is range:
            return self._new(value, ["range", value.start, value.stop, value.step])
        return self._arrow(value, made)

    def _arrow(self, value: Any, made: type) -> int:
        if isinstance(value, pa.Schema):
            return self._new(value, ["schema", value.serialize().to_pybytes()])
        if isinstance(value, pa.DataType):
            return self._new(value, ["type", pa.schema([("", value)]).serialize().to_pybytes()])
        if isinstance(value, pa.Array):
            kind, batches = "arrow", [pa.record_batch([value], [""])]
        elif isinstance(value, pa.RecordBatch):
            kind, batches = "batch", [value]
        elif isinstance(value, pa.Table):
            kind, batches = "table", value.to_batches()
        elif isinstance(value, pa.Scalar):
            kind, batches = "arrow scalar", [pa.record_batch([pa.array([value], value.type)], [""])]
        else:
            raise self._refused(f"a `{made.__module__}.{made.__qualname__}`")
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, value.schema if kind in ("batch", "table") else batches[0].schema) as to:
            for batch in batches:
                to.write_batch(batch)
        self.buffers.append(out.getvalue())
        return self._new(value, [kind, len(self.buffers) - 1])

    def _error(self, value: BaseException, made: type) -> int:
        """An error that ended a query; one that is not ours becomes a plain one of the same words."""
        notes = [str(note) for note in getattr(value, "__notes__", ())]
        held = {k: v for k, v in value.__dict__.items() if k != "__notes__"} if self._is_ours(made) else {}
        named = self._named(made) if self._is_ours(made) else self._constant(str, made.__name__)
        numbers = map(self._number, held.values())
        return self._new(value, ["error", named, str(value), notes, list(held), *numbers])

    def _is_ours(self, made: type) -> bool:
        return made in self._known or made is Room

    def _named(self, value: Any) -> int:
        """The number of the name of a class or function."""
        name = name_of(value)
        if not isinstance(value, type) and not self._known.is_function(name):
            raise self._refused(f"the function `{name}`")
        return self._constant(str, name)

    def _refused(self, what: str) -> UsageError:
        return UsageError(f"Expected what a checkpoint can hold, found {what} in `{self._where}`")
