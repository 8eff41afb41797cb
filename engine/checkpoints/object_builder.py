"""Objects made of what object_graph.py wrote down, whatever the records say.

Records may come from anybody. Each is looked at before anything is made of it: its kind, how many fields it
has
and of which types, and that the numbers in it are those of other records. Classes, functions and methods are
those on the list (restorable.py), objects are made without `__init__`, and nothing is run but `__setstate__`,
`__post_init__`, `__hash__` and `__eq__` of those classes. Then every attribute has to be of the type that the
list says, and whoever has arrays has to find them in order (in_order.py).

    1 made empty      objects, lists, dicts ...
    2 made whole      what compares by value and what is not ours, of parts with lower numbers or made empty
    3 filled          what was made empty; dicts and sets last, as keys have to be whole
    4 looked at       types of attributes, then values
"""

from __future__ import annotations

import builtins
import enum
import functools
import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.restoring.in_order import expect
from penstock.engine.restoring.restorable import Restorable, Unknown, is_callable
from penstock.engine.rows.array_memory import ArrayMemory, Buffer, made_dtype
from penstock.engine.rows.arrow_stream import read_table
from penstock.engine.rows.buffer import RowBuffer

from .object_graph import CONTAINERS, PLURALS, Record, has_own_state, is_value
from .own_arrays import OwnArrays, is_in_one_piece

MAX_DEPTH = 500
"""Of things that compare by value: to compare them, or to take their hash, is to call oneself so often."""
MAX_PARTS = 1 << 20
"""Of such a thing, each counted as often as it is met."""
MAX_ROOM_BYTES = 1 << 30
MAX_TEXT = 1 << 16
UNMADE = object()

FIELDS: dict[str, tuple[Any, ...]] = {
    "wide": (str,),
    "array": (int,),
    "room": (int, int),
    "objects": (list,),
    "enum": (int, str),
    "named": (int,),
    "value": (int, int),
    "object": (int, int),
    "function": (int,),
    "method": (int, str),
    "partial": (),
    "count": (),
    "error": (int, str, list, list),
    "scalar": (str, bytes),
    "dtype": (str,),
    "range": (int, int, int),
    "schema": (bytes,),
    "type": (bytes,),
    "table": (int,),
    "batch": (int,),
    "arrow": (int,),
    "arrow scalar": (int,),
    **dict.fromkeys([*CONTAINERS, *PLURALS], ()),
}
"""By kind: types of the fields a record begins with."""
ENDLESS = {"objects", "named", "value", "object", "partial", "count", "error", *CONTAINERS, *PLURALS}
"""Kinds whose records go on with numbers of other records."""
EMPTY = frozenset({"object", *CONTAINERS})
"""Kinds of what is made empty, and then filled."""
EARLY = EMPTY | {""}
WHOLES = frozenset({"tuple", "frozenset", "named", "value", "partial"})
CONSTANTS = (type(None), bool, int, float, str, bytes)


class Build:
    """Makes objects of what a Walk wrote down; raises whatever may come of records that are not in order."""

    def __init__(
        self, known: Restorable, records: Sequence[Record], buffers: Sequence[Buffer], arrays: list[Any]
    ) -> None:
        self._known = known
        self._records = records
        self._buffers = buffers
        self._entries = arrays
        self._arrays = ArrayMemory.restore(arrays, buffers)
        self._classes: dict[int, type] = {}
        """By the number of their name."""
        self._made: list[Any] = [UNMADE] * len(records)
        self._rows_of_room = 0
        self._names: dict[int, list[str]] = {}
        """Of attributes, by the number of the text that has them."""
        self._helds: dict[int, dict[str, Any]] = {}
        """Attributes of objects and values by their numbers."""

    def all(self) -> list[Any]:
        """Every object by its number."""
        made = self._made
        self._check_records()
        later: list[int] = []
        last: list[int] = []
        # 1. what is made empty
        for number, record in enumerate(self._records):
            kind = record[0]
            if not kind:
                made[number] = record[1]
            elif kind == "object":
                later.append(number)
            elif kind in CONTAINERS:
                made[number] = CONTAINERS[kind]()
                (last if kind not in ("list", "deque") else later).append(number)
        for number in later:
            record = self._records[number]
            if record[0] == "object":
                made[number] = object.__new__(self._class(record[1], _is_plain))
        # 2. what is made whole, of parts with lower numbers or of things still empty
        for number, record in enumerate(self._records):
            if made[number] is UNMADE:
                made[number] = self._whole(number, record[0], record)
        # 3. what is in those that were made empty
        for number in later:
            record = self._records[number]
            if record[0] == "object":
                held = self._helds[number] = self._held(record)
                self._fill(made[number], held)
            else:
                made[number].extend([made[one] for one in record[1:]])
        for number in last:
            parts = [made[one] for one in self._records[number][1:]]
            if self._records[number][0] == "set":
                made[number].update(parts)
            else:
                held = made[number]
                for key, value in zip(parts[::2], parts[1::2], strict=True):
                    held[key] = value
        # 4. whether all that is as it must be
        self._check_types()
        self._check_values()
        return made

    def _check_records(self) -> None:
        """Each has a kind, the fields of its kind and numbers of records; what compares by value has an
        end."""
        if type(self._records) is not list:
            raise Unknown("Expected a list of records")
        count = len(self._records)
        depths, sizes = [0] * count, [1] * count
        for number, record in enumerate(self._records):
            if type(record) is not list or not record or type(record[0]) is not str:
                raise Unknown(f"Expected a record, found {type(record).__name__}")
            kind = record[0]
            if not kind:
                if len(record) != 2 or type(record[1]) not in CONSTANTS:
                    raise Unknown("Expected a plain value")
                continue
            fields = FIELDS.get(kind)
            if fields is None:
                raise Unknown(f"Expected a kind of record, found `{kind}`")
            first = 1 + len(fields)
            if tuple(map(type, record[1:first])) != fields:
                raise Unknown(f"Expected a `{kind}` with its fields")
            rest = record[first:]
            if rest:
                if (
                    kind not in ENDLESS
                    or set(map(type, rest)) != {int}
                    or min(rest) < 0
                    or max(rest) >= count
                ):
                    raise Unknown(f"Expected a `{kind}` with numbers of records")
                if kind not in EMPTY and max(rest) >= number:
                    late = [one for one in rest if one >= number]
                    if not all(self._records[one][:1] and self._records[one][0] in EARLY for one in late):
                        raise Unknown("Expected parts that come before what they are parts of")
                if kind in WHOLES:
                    before = [one for one in rest if one < number]
                    depths[number] = 1 + max([depths[one] for one in before], default=0)
                    sizes[number] = 1 + sum([sizes[one] for one in before])
                    if depths[number] > MAX_DEPTH or sizes[number] > MAX_PARTS:
                        raise Unknown("Expected what has fewer parts")

    def _fill(self, value: Any, held: dict[str, Any]) -> None:
        if has_own_state(value):
            self._check_held(type(value), held)
            if hasattr(value, "__setstate__"):
                value.__setstate__(held)
                return
        for name, one in held.items():
            object.__setattr__(value, name, one)

    def _held(self, record: Record) -> dict[str, Any]:
        """Attributes by name."""
        names = self._names.get(record[2])
        if names is None:
            names = self._names[record[2]] = self._text(record[2]).split()
            if len(set(names)) != len(names):
                raise Unknown("Expected each attribute once")
        return dict(zip(names, self._parts(record, 3), strict=True))

    def _check_held(self, made: type, held: dict[str, Any]) -> None:
        self._known.check(made, held)

    def _check_types(self) -> None:
        """Attributes are of the types on the list, and so are arguments of what is called later."""
        made, known = self._made, self._known
        for number, record in enumerate(self._records):
            kind = record[0]
            if kind in ("object", "value"):
                known.check(type(made[number]), self._helds[number])
            elif kind == "named":
                value = made[number]
                known.check(type(value), value._asdict())
            elif kind in ("partial", "method", "function"):
                known.check_call(made[number])

    def _check_own(self) -> None:
        """What is written in place is in the hands of one object, or what was found in order would not stay
        so. A buffer that somebody else sees a part of gets memory of its own."""
        own = OwnArrays(self._records, [one[3] for one in self._entries])
        shared: set[int] = set()
        for number, held in self._helds.items():
            owner = self._made[number]
            if isinstance(owner, RowBuffer):
                at = self._number_of(number, "data")
                if not own.is_alone(at):
                    memory = own.buffer_of(at)
                    expect(memory not in shared, "one buffer of rows in a place")
                    shared.add(memory)
                    owner.fit()
                continue
            for name in getattr(owner, "_owned", ()):
                if name in held:
                    expect(own.is_alone(self._number_of(number, name)), f"`{name}` of one owner")
                    expect(is_in_one_piece(held[name]), f"`{name}` without gaps")

    def _number_of(self, number: int, name: str) -> int:
        """Of the record that an object has as an attribute."""
        record = self._records[number]
        return int(record[3 + self._names[record[2]].index(name)])

    def _check_values(self) -> None:
        """Whoever has arrays finds them in order; buffers first, as others ask them."""
        owners = [
            self._made[number]
            for number, record in enumerate(self._records)
            if record[0] in ("object", "value", "named") and hasattr(self._made[number], "_check_restored")
        ]
        for owner in owners:
            if isinstance(owner, RowBuffer):
                owner._check_restored()
        self._check_own()
        for owner in owners:
            if not isinstance(owner, RowBuffer):
                owner._check_restored()

    def _whole(self, number: int, kind: str, record: Record) -> Any:
        match kind:
            case "wide":
                return int(record[1])
            case "tuple" | "frozenset":
                return PLURALS[kind](self._parts(record, 1))
            case "array":
                return self._array(record[1])
            case "room":
                return self._room(self._array(record[1]), record[2])
            case "objects":
                parts = self._parts(record, 2)
                objects = np.empty(len(parts), object)
                objects[:] = parts
                return objects.reshape(record[1])
            case "enum":
                return self._class(record[1], _is_enum)[record[2]]  # type: ignore[index]
            case "named":
                return self._named(record)
            case "value":
                value: Any = object.__new__(self._class(record[1], is_value))
                held = self._helds[number] = self._held(record)
                for name, one in held.items():
                    object.__setattr__(value, name, one)
                if hasattr(value, "__post_init__"):
                    self._check_held(type(value), held)
                    value.__post_init__()
                return value
            case "function":
                return self._known.function(self._text(record[1]))
            case "method":
                return self._method(self._part(record[1]), record[2])
            case "partial":
                function, *arguments = self._parts(record, 1)
                if not is_callable(function):
                    raise Unknown("Expected something to call")
                return functools.partial(function, *arguments)
            case "count":
                return itertools.count(*(_int(one) for one in self._parts(record, 1)))
            case "error":
                return self._error(record)
            case "scalar":
                return np.frombuffer(record[2], made_dtype(record[1]))[0]
            case "dtype":
                return made_dtype(record[1])
            case "range":
                return range(*record[1:])
        return self._arrow(kind, record)

    def _part(self, number: int) -> Any:
        """What has this number, which must have been made by now."""
        found = self._made[number] if 0 <= number < len(self._made) else UNMADE
        if found is UNMADE:
            raise Unknown("Expected a part that comes before what it is a part of")
        return found

    def _parts(self, record: Record, first: int) -> list[Any]:
        made = self._made
        return [made[one] for one in record[first:]]  # which have been made: _check_records has seen to that

    def _text(self, number: int) -> str:
        found = self._part(number)
        if type(found) is not str or len(found) > MAX_TEXT:
            raise Unknown(f"Expected a name, found {type(found).__name__}")
        return found

    def _array(self, number: int) -> np.ndarray:
        if not 0 <= number < len(self._arrays):
            raise Unknown(f"Expected one of {len(self._arrays)} arrays, found `{number}`")
        return self._arrays[number]

    def _room(self, used: np.ndarray, rows: int) -> np.ndarray:
        if not used.ndim or rows < len(used):
            raise Unknown(f"Expected room for {used.shape} rows, found `{rows}`")
        width = used.itemsize * int(np.prod(used.shape[1:], dtype=object))
        self._rows_of_room += rows * width
        if self._rows_of_room > MAX_ROOM_BYTES:
            raise Unknown(f"Expected room of less than {MAX_ROOM_BYTES:,} bytes")
        room = np.zeros((rows, *used.shape[1:]), used.dtype)
        room[: len(used)] = used
        return room

    def _named(self, record: Record) -> Any:
        made = self._class(record[1], _is_row)
        parts = self._parts(record, 2)
        if len(parts) != len(made._fields):  # type: ignore[attr-defined]
            raise Unknown(f"Expected all of `{made.__qualname__}`")
        return tuple.__new__(made, parts)

    def _arrow(self, kind: str, record: Record) -> Any:
        if kind in ("schema", "type"):
            schema = pa.ipc.read_schema(pa.py_buffer(record[1]))
            return schema if kind == "schema" else schema.field(0).type
        if not 0 <= record[1] < len(self._buffers):
            raise Unknown(f"Expected one of {len(self._buffers)} buffers, found `{record[1]}`")
        table = read_table(bytes(self._buffers[record[1]]))
        match kind:
            case "table":
                return table
            case "batch":
                return table.combine_chunks().to_batches()[0] if len(table) else empty_batch(table.schema)
            case "arrow":
                return table.column(0).combine_chunks()
        return table.column(0)[0]

    def _error(self, record: Record) -> BaseException:
        _, named, text, notes, names, *numbers = record
        name = self._text(named)
        cls: Any
        if "." in name:
            cls = self._class(named, _is_error)
        else:
            cls = getattr(builtins, name, None)
            if not (isinstance(cls, type) and issubclass(cls, Exception)):
                cls, text = RuntimeError, f"{name}: {text}"
        error: Exception = cls.__new__(cls, text)
        error.args = (text,)
        held = dict(zip(names, (self._part(one) for one in numbers), strict=True))
        if held:
            self._check_held(cls, held)
        for key, one in held.items():
            setattr(error, key, one)
        for note in notes:
            error.add_note(note)
        return error

    def _method(self, owner: Any, name: str) -> Any:
        made = type(owner)
        if made is list and name == "append":
            return owner.append
        found = getattr(made, name, None)
        if made not in self._known or not isinstance(found, types.FunctionType):
            raise Unknown(f"Expected a method of `{made.__qualname__}`, found `{name}`")
        return types.MethodType(found, owner)

    def _class(self, number: int, wanted: Callable[[type], bool]) -> type:
        """A class on the list, by the number of its name, if it is of the kind that a record is for."""
        found = self._classes.get(number)
        if found is None:
            found = self._classes[number] = self._known.class_named(self._text(number))
        if not wanted(found):
            raise Unknown(f"Expected another kind of class, found `{found.__qualname__}`")
        return found


def _is_plain(made: type) -> bool:
    """Whether objects of a class are made empty and then filled."""
    return not (is_value(made) or issubclass(made, tuple | BaseException | enum.Enum))


def _is_enum(made: type) -> bool:
    return issubclass(made, enum.Enum)


def _is_row(made: type) -> bool:
    return issubclass(made, tuple)


def _is_error(made: type) -> bool:
    return issubclass(made, Exception)


def _int(value: Any) -> int:
    if type(value) is not int:
        raise Unknown(f"Expected a number, found {type(value).__name__}")
    return value


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
