"""Blocks of rows in a file, one behind the other, each with a checksum.

    magic  length  checksum | rows, as an Arrow IPC stream
    4      8       4          length bytes

The checksum is of length and rows. A block that was not written to its end, or was changed, is an error.
"""

from __future__ import annotations

import os
import struct
import zlib

import pyarrow as pa

from penstock.engine.rows.arrow_stream import read_table
from penstock.engine.rows.errors import FileError

from .block import Block

MAGIC = b"ROWS"
FRONT = struct.Struct("<4sQI")


def pack(rows: pa.RecordBatch) -> list[bytes | pa.Buffer]:
    """A block as it is written."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_batch(rows)
    found = out.getvalue()
    return [FRONT.pack(MAGIC, found.size, checksum(found)), found]


def checksum(rows: pa.Buffer | bytes) -> int:
    size = len(rows)
    return zlib.crc32(rows, zlib.crc32(size.to_bytes(8, "little")))


def read(block: Block) -> pa.RecordBatch:
    """The rows of a block; raises FileError if they are not what was written."""
    try:
        with open(block.path, "rb") as file:
            there = max(0, os.fstat(file.fileno()).st_size - block.at)
            if there < block.size:  # no room is made for what is not there
                raise damaged(block, f"{there:,} bytes")
            file.seek(block.at)
            found = file.read(block.size)
    except OSError as error:
        raise damaged(block, error.strerror or str(error)) from None
    magic, length, written = FRONT.unpack_from(found)
    rows = memoryview(found)[FRONT.size :]
    if magic != MAGIC or length != len(rows):
        raise damaged(block, "other bytes")
    counted = checksum(bytes(rows))
    if counted != written:
        raise damaged(block, f"the checksum `{counted:08x}`, not `{written:08x}`")
    try:
        batches = read_table(rows).to_batches()
    except (pa.ArrowException, ValueError, struct.error) as error:
        raise damaged(block, str(error)) from None
    if [one.num_rows for one in batches] != [block.rows]:
        raise damaged(block, "another number of rows")
    return batches[0]


def damaged(block: Block, found: str) -> FileError:
    return FileError(
        f"Expected a block of {block.size:,} bytes at {block.at:,} of a spool, found {found}",
        source=os.fspath(block.path),
    )
