"""Objects made of what object_graph.py wrote down.

Nothing that was read is run: a class or function is looked up in the packages named by the caller, objects
are made without `__init__`, and only `__setstate__` and `__post_init__` of our own classes are called.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .array_memory import ArrayMemory, Buffer
from .object_graph import CONTAINERS, KINDS, PLURALS, Record, has_own_state


class Unknown(LookupError):
    """A record names something that is not there, or not of ours."""


class Build:
    """Makes objects of what a Walk wrote down; raises whatever may come of records that are not in order."""

    def __init__(
        self, packages: Sequence[str], records: Sequence[Record], buffers: Sequence[Buffer], arrays: list[Any]
    ) -> None:
        self._packages = tuple(packages)
        self._records = records
        self._buffers = buffers
        self._arrays = ArrayMemory.restore(arrays, buffers)
        self._found: dict[int, Any] = {}
        """Classes and functions, by the number of their name."""
        self._made: list[Any] = [None] * len(records)

    def all(self) -> list[Any]:
        """Every object by its number."""
        made = self._made
        later: list[int] = []
        last: list[int] = []
        # 1. what is made empty
        for number, record in enumerate(self._records):
            kind = record[0]
            if not kind:
                made[number] = record[1]
            elif kind == "object":
                cls = self._class(record[1])
                made[number] = object.__new__(cls)
                later.append(number)
            elif kind in CONTAINERS:
                made[number] = CONTAINERS[kind]()
                (last if kind not in ("list", "deque") else later).append(number)
        # 2. what is made whole, of parts with lower numbers or of things still empty
        for number, record in enumerate(self._records):
            kind = record[0]
            if kind and kind != "object" and kind not in CONTAINERS:
                made[number] = self._whole(kind, record)
        # 3. what is in those that were made empty
        for number in later:
            record = self._records[number]
            if record[0] == "object":
                self._fill(made[number], record)
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
        return made

    def _fill(self, value: Any, record: Record) -> None:
        made = self._made
        held = dict(zip(made[record[2]].split(), [made[one] for one in record[3:]], strict=True))
        if hasattr(value, "__setstate__") and has_own_state(value):
            value.__setstate__(held)
        else:
            for name, one in held.items():
                object.__setattr__(value, name, one)

    def _whole(self, kind: str, record: Record) -> Any:
        made = self._made
        match kind:
            case "wide":
                return int(record[1])
            case "tuple" | "frozenset":
                return PLURALS[kind](made[one] for one in record[1:])
            case "array":
                return self._arrays[record[1]]
            case "room":
                used = self._arrays[record[1]]
                room = np.zeros((record[2], *used.shape[1:]), used.dtype)
                room[: len(used)] = used
                return room
            case "objects":
                objects = np.empty(len(record) - 2, object)
                objects[:] = [made[one] for one in record[2:]]
                return objects.reshape(record[1])
            case "enum":
                return self._class(record[1])[record[2]]
            case "named":
                return tuple.__new__(self._class(record[1]), [made[one] for one in record[2:]])
            case "value":
                value = object.__new__(self._class(record[1]))
                for name, one in zip(made[record[2]].split(), record[3:], strict=True):
                    object.__setattr__(value, name, made[one])
                if hasattr(value, "__post_init__"):
                    value.__post_init__()
                return value
            case "class" | "function":
                return self._look_up(record[1])
            case "method":
                return self._method(made[record[1]], record[2])
            case "partial":
                function, *arguments = (made[one] for one in record[2:])
                named = dict(zip(record[1], arguments[len(arguments) - len(record[1]) :], strict=True))
                return functools.partial(function, *arguments[: len(arguments) - len(named)], **named)
            case "count":
                return itertools.count(*(made[one] for one in record[1:]))
            case "error":
                return self._error(record)
            case "scalar":
                return np.frombuffer(record[2], np.dtype(record[1]))[0]
            case "dtype":
                return np.dtype(record[1])
            case "range":
                return range(*record[1:])
        return self._arrow(kind, record)

    def _arrow(self, kind: str, record: Record) -> Any:
        if kind in ("schema", "type"):
            schema = pa.ipc.read_schema(pa.py_buffer(record[1]))
            return schema if kind == "schema" else schema.field(0).type
        table = pa.ipc.open_stream(pa.py_buffer(bytes(self._buffers[record[1]]))).read_all()
        match kind:
            case "table":
                return table
            case "batch":
                return table.combine_chunks().to_batches()[0] if len(table) else empty_batch(table.schema)
            case "arrow":
                return table.column(0).combine_chunks()
            case "arrow scalar":
                return table.column(0)[0]
        raise Unknown(f"Expected a kind of record, found `{kind}`")

    def _error(self, record: Record) -> BaseException:
        _, named, text, notes, names, *numbers = record
        name = self._made[named]
        cls = self._class(named) if ":" in name else getattr(importlib.import_module("builtins"), name, None)
        if not (isinstance(cls, type) and issubclass(cls, Exception)):
            cls, text = RuntimeError, f"{name}: {text}"
        error: Exception = cls.__new__(cls, text)
        error.args = (text,)
        for key, one in zip(names, numbers, strict=True):
            setattr(error, key, self._made[one])
        for note in notes:
            error.add_note(note)
        return error

    def _method(self, owner: Any, name: str) -> Any:
        found = getattr(type(owner), name, None)
        if type(owner) in KINDS and isinstance(found, types.MethodDescriptorType):
            return getattr(owner, name)
        if not isinstance(found, types.FunctionType) or not type(owner).__module__.startswith(self._packages):
            raise Unknown(f"Expected a method of `{type(owner).__qualname__}`, found `{name}`")
        return types.MethodType(found, owner)

    def _class(self, number: int) -> Any:
        found = self._look_up(number)
        if not isinstance(found, type):
            raise Unknown(f"Expected a class, found `{self._made[number]}`")
        return found

    def _look_up(self, number: int) -> Any:
        """A class or function of ours, by the number of its name."""
        found = self._found.get(number)
        if found is not None:
            return found
        name = self._made[number]
        module, _, path = name.partition(":")
        if not module.startswith(self._packages):
            raise Unknown(f"Expected a class or function of Penstock, found `{name}`")
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        is_kernel = hasattr(found, "py_func")
        if not (is_kernel or isinstance(found, type | types.FunctionType)):
            raise Unknown(f"Expected a class or function of Penstock, found `{name}`")
        if not is_kernel and found.__module__ != module:
            raise Unknown(f"Expected a class or function of Penstock, found `{name}`")
        self._found[number] = found
        return found


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
