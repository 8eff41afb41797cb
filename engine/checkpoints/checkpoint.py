"""A checkpoint: objects as a file or as bytes, whole or not at all.

    magic  format version  length of all  of header, as stored and not | header  | buffers ... | checksum
    8      4               8              8               8              msgpack                 4 bytes

The header has the program's version, the note, the records of the object graph, where arrays are in the
buffers and how long each buffer is. Buffers and header are compressed where that helps. Numbers are
little-endian. The checksum (CRC-32 of all before it) finds accidents; it is no seal against forgery. So
sizes are looked at before anything is unpacked, and what is in it before anything is made of it (see
object_builder.py).

A file is written whole or not at all (write_whole.py).
"""

from __future__ import annotations

import contextlib
import gc
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from penstock.engine.kernels.base.packed import is_whole
from penstock.engine.restoring.restorable import restorable
from penstock.engine.rows.array_memory import Buffer, is_size
from penstock.engine.rows.errors import CheckpointError, FileError, UsageError

from .object_builder import Build
from .object_graph import Walk
from .write_whole import write_whole

MAGIC = b"PENSTOCK"
FORMAT_VERSION = 1
FRONT = struct.Struct("<8sIQQQ")
CHECKSUM = struct.Struct("<I")
FEW_BYTES = 256
MOST_TIMES = 256
"""LZ4 makes nothing shorter than that."""
MAX_WORDS = 500
HEADER: dict[str, type] = {
    "version": str, "note": bytes, "root": int, "records": list, "arrays": list, "lengths": list, "stored":
    list,
}  # fmt: skip
NOT_STATED = "bytes given"


def dump(root: object, note: Mapping[str, Any], version: str) -> list[Buffer]:
    """The parts of a checkpoint, one after the other; they read the memory of `root` until written."""
    walk = Walk(restorable())
    number = walk.take(root)
    arrays = walk.arrays()
    lengths = [memoryview(one).nbytes for one in walk.buffers]
    packed = [pack(one, length) for one, length in zip(walk.buffers, lengths, strict=True)]
    stored = [memoryview(one).nbytes for one in packed]
    header = msgpack.packb(
        {
            "version": version,
            "note": pack_note(note),
            "root": number,
            "records": walk.records,
            "arrays": arrays,
            "lengths": lengths,
            "stored": stored,
        },
        unicode_errors="surrogatepass",
    )
    front = pack(header, len(header))
    begins = memoryview(front).nbytes
    length = FRONT.size + begins + sum(stored) + CHECKSUM.size
    parts = [FRONT.pack(MAGIC, FORMAT_VERSION, length, begins, len(header)), front, *packed]
    return [*parts, CHECKSUM.pack(checksum(parts))]


def pack(buffer: Buffer, length: int) -> Buffer:
    """A buffer compressed, if that makes it shorter: free room and counters are mostly zeros."""
    if length < FEW_BYTES:
        return buffer
    packed = pa.compress(buffer, codec="lz4")
    return packed if packed.size < length - length // 8 else buffer


def unpack(stored: memoryview, length: int) -> Buffer:
    if stored.nbytes > length:
        raise ValueError(f"expected {stored.nbytes} bytes or more, found {length}")
    return stored if stored.nbytes == length else decompressed(stored, length)


def decompressed(stored: Buffer, length: int) -> Buffer:
    """What was compressed, in memory of its own; raises ValueError or OSError if it is longer or shorter.

    Memory is taken as it is found: where nothing is written there could be anything of this process.
    """
    size = memoryview(stored).nbytes
    if not 0 <= length <= MOST_TIMES * size:
        raise ValueError(f"expected at most {MOST_TIMES} times {size} bytes, found {length}")
    found = np.empty(length, np.uint8)
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(stored)), "lz4") as stream:
        if stream.readinto(found) != length or stream.read(1):
            raise ValueError(f"expected {length} bytes in {size}, found others")
    return found


def pack_note(note: Mapping[str, Any]) -> bytes:
    """What goes with a checkpoint."""
    if not isinstance(note, Mapping):
        raise UsageError(f"Expected a note as a mapping, found {type(note).__name__}")
    try:
        packed = bytes(msgpack.packb(dict(note)))
        msgpack.unpackb(packed, strict_map_key=False)  # a tuple as a key goes in, but does not come back
        return packed
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"Expected a note of numbers, texts, bytes, lists and mappings: {error}") from None


def checksum(parts: Iterable[Buffer]) -> int:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value


def load(data: Buffer, version: str, source: str = NOT_STATED) -> tuple[Any, dict[str, Any]]:
    """The objects of a checkpoint, and its note; raises CheckpointError, whatever the bytes are."""
    view = memoryview(data).cast("B")
    stored, length = check(view, source)
    header_end = FRONT.size + stored
    try:
        header = unpacked(view, stored, length)
        if header["version"] != version:
            raise CheckpointError(
                f"Expected a checkpoint of Penstock `{version}`, found one of `{header['version']}`",
                source=source,
            )
        buffers = read_buffers(view[header_end : -CHECKSUM.size], header["lengths"], header["stored"])
        with without_collection():
            made = Build(restorable(), header["records"], buffers, header["arrays"]).all()
        note = unpack_values(header["note"])
        if type(note) is not dict:
            raise ValueError("expected a note")
        return made[header["root"]], note
    except CheckpointError:
        raise
    except (
        Exception,
        RecursionError,
    ) as error:  # the checksum is right, so whoever wrote it was not Penstock
        words = " ".join(str(error).split())[:MAX_WORDS]
        raise CheckpointError(
            f"Expected a checkpoint as Penstock writes it, found {type(error).__name__} ({words})",
            source=source,
        ) from None


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Many objects are made and none is garbage: to look for some, time and again, takes longer than to make
    them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def unpacked(view: memoryview, stored: int, length: int) -> dict[str, Any]:
    """The header, which has the fields it should have."""
    packed = view[FRONT.size : FRONT.size + stored]
    if FRONT.size + stored + CHECKSUM.size > view.nbytes:
        raise ValueError("expected a header inside the file")
    header = unpack_values(unpack(packed, length), unicode_errors="surrogatepass")
    if type(header) is not dict or header.keys() != HEADER.keys():
        raise ValueError(f"expected a header of {sorted(HEADER)}")
    for name, kind in HEADER.items():
        if type(header[name]) is not kind:
            raise ValueError(f"expected `{name}` as {kind.__name__}, found {type(header[name]).__name__}")
    if not 0 <= header["root"] < len(header["records"]):
        raise ValueError(f"expected one of the records, found `{header['root']}`")
    return header


def unpack_values(packed: Buffer, **options: Any) -> Any:
    """Plain values, with no more room made for them than they take."""
    if not is_whole(np.frombuffer(packed, np.uint8).copy()):
        raise ValueError("expected lists as long as they say")
    return msgpack.unpackb(packed, strict_map_key=False, **options)


def read_buffers(view: memoryview, lengths: list[Any], stored: list[Any]) -> list[Buffer]:
    """The buffers, which are all there is behind the header."""
    if not all(is_size(one) for one in (*lengths, *stored)) or sum(stored) != view.nbytes:
        raise ValueError("expected buffers up to the end of the file")
    buffers = []
    at = 0
    for length, size in zip(lengths, stored, strict=True):
        buffers.append(unpack(view[at : at + size], length))
        at += size
    return buffers


def check(view: memoryview, source: str) -> tuple[int, int]:
    """How long the header is, as stored and in itself, if all is there, unchanged, and nothing else."""
    front = bytes(view[: FRONT.size])
    if front[: len(MAGIC)] != MAGIC[: len(front)] or not front:
        found = f"`{front[: len(MAGIC)]!r}`" if front else "nothing"
        raise CheckpointError(f"Expected a checkpoint, found a file that begins with {found}", source=source)
    if len(front) < FRONT.size:
        raise CheckpointError(
            f"Expected a whole checkpoint, found its first {len(front)} bytes", source=source
        )
    _, version, length, *of_header = FRONT.unpack(front)
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"Expected a checkpoint of format `{FORMAT_VERSION}` or lower, found `{version}`",
            source=source,
            hint="It was made by a later Penstock",
        )
    if length != view.nbytes:
        cut = "It was cut short" if length > view.nbytes else "There is more than was written"
        raise CheckpointError(
            f"Expected a checkpoint of {length:,} bytes, found {view.nbytes:,}", source=source, hint=cut
        )
    (written,) = CHECKSUM.unpack(view[-CHECKSUM.size :])
    counted = checksum([view[: -CHECKSUM.size]])
    if written != counted:
        raise CheckpointError(
            f"Expected the checksum `{written:08x}`, found `{counted:08x}`",
            source=source,
            hint="It is damaged",
        )
    return of_header[0], of_header[1]


def write_file(path: str | os.PathLike[str], parts: Iterable[Buffer]) -> None:
    """Put a checkpoint in the place of another, or where none was; raises FileError."""
    try:
        write_whole(path, parts)
    except OSError as error:
        raise FileError(
            f"Expected to write a checkpoint, found {error.strerror or error}", source=str(path)
        ) from None


def read_file(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"Expected a checkpoint, found {error.strerror or error}", source=str(path)
        ) from None
