"""Arrow data from bytes that anybody may have written: no more room is made than the bytes take.

An IPC stream may have compressed buffers, each with the length it is to have; so its messages are looked at
before anything is made of them. Penstock writes none that are compressed, and no dictionaries.

    message  a flatbuffer, with a table Message whose header is a table Schema or RecordBatch; then the body
    table    the distance to its vtable; fields
    vtable   its size, the size of the table, where each field is (0: nowhere)
"""

from __future__ import annotations

import struct

import pyarrow as pa

HEADER_TYPE, HEADER = 1, 2
"""Fields of a message."""
COMPRESSION = 3
"""Field of a record batch."""
SCHEMA, RECORD_BATCH = 1, 3
"""Types of headers."""


def read_table(stored: bytes | memoryview) -> pa.Table:
    """Raises ValueError, or what Arrow raises, if it is no plain stream of batches."""
    buffer = pa.py_buffer(stored)
    for message in pa.ipc.MessageReader.open_stream(buffer):
        if not is_plain(message.metadata.to_pybytes()):
            raise ValueError("expected Arrow data as it is, found some that is compressed")
    table = pa.ipc.open_stream(buffer).read_all()
    table.validate(full=True)
    return table


def is_plain(metadata: bytes) -> bool:
    """Whether a message is a schema, or a batch whose buffers are not compressed."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    kind = field(metadata, root, HEADER_TYPE)
    header = field(metadata, root, HEADER)
    if not kind or not header:
        return False
    if metadata[kind] == SCHEMA:
        return True
    (further,) = struct.unpack_from("<I", metadata, header)
    return metadata[kind] == RECORD_BATCH and not field(metadata, header + further, COMPRESSION)


def field(metadata: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0: it has none."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", metadata, vtable)
    if 4 + 2 * number >= size:
        return 0
    (place,) = struct.unpack_from("<H", metadata, vtable + 4 + 2 * number)
    return table + place if place else 0
