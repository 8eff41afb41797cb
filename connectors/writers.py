"""Results into files, one per query, in a stream; whatever has been written can be read after any end.

CSV and JSON lines grow under their own name, so that they can be followed while they grow. Parquet is
unreadable until its footer is written: a file gets its name when it is whole, and a long run gives many.
"""

from __future__ import annotations

import errno
import os
import string
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from penstock.engine.rows.errors import UsageError

from .files_read import FilesRead, refuse_same
from .parquet_part import GROUP_ROWS
from .parquet_writer import ParquetWriter
from .segments import find_segments
from .text_writers import CsvWriter, JsonLinesWriter
from .writing import writing

OutputFormat = Literal["parquet", "csv", "jsonl"]

SAFE = set(string.ascii_letters + string.digits + "_-.")
LONGEST_NAME_BYTES = 200
# A row group has at least GROUP_ROWS, unless many queries would then hold too much at once.
HELD_ROWS = 1 << 22
SMALLEST_GROUP_ROWS = 1 << 12
SPARE_FILES = 64
PARQUET = ".parquet"


class Writer(Protocol):
    """Where the results of one query go."""

    @property
    def path(self) -> str:
        """The file, or the folder of its files."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None:
        """What has been written survives whatever comes."""

    def close(self) -> None:
        """Everything is in its place."""

    def merge(self) -> None:
        """After `close`: what came in many files becomes few."""


def open_writers(
    folder: str,
    format_: OutputFormat,
    schemas: Mapping[str, pa.Schema],
    *,
    overwrite: bool = False,
    files_read: FilesRead | None = None,
) -> dict[str, Writer]:
    """A writer per query, its file in `folder`, made if need be; without `overwrite` no file is replaced.

    files_read: what may not be replaced in any case.
    """
    paths = {name: os.path.join(folder, f"{file_name(name)}.{format_}") for name in schemas}
    with writing(folder):
        os.makedirs(folder, exist_ok=True)
    for path in paths.values():
        _refuse_taken(path, overwrite, files_read or FilesRead())
    refuse_same(paths)
    _allow_files(len(paths))
    group_rows = max(SMALLEST_GROUP_ROWS, min(GROUP_ROWS, HELD_ROWS // max(1, len(paths))))
    writers: dict[str, Writer] = {}
    try:
        for name, path in paths.items():
            with writing(path):
                match format_:
                    case "parquet":
                        segments = segment_folder(path)
                        writers[name] = ParquetWriter(path, segments, schemas[name], group_rows)
                    case "csv":
                        writers[name] = CsvWriter(path, schemas[name])
                    case "jsonl":
                        writers[name] = JsonLinesWriter(path)
    except BaseException:
        for writer in writers.values():
            writer.close()
        raise
    return writers


def segment_folder(path: str) -> str:
    """`out/hot` for `out/hot.parquet`; never the file of another query."""
    stem = path.removesuffix(PARQUET)
    return stem.removesuffix(PARQUET) + "%2Eparquet" if stem.endswith(PARQUET) else stem


def _refuse_taken(path: str, overwrite: bool, files_read: FilesRead) -> None:
    """UsageError if something is in the way of a query's results."""
    files_read.refuse(path)
    if os.path.lexists(path) and not overwrite:
        raise UsageError(f"Expected no file at `{path}`, found one; give --overwrite to replace it")
    if not path.endswith(PARQUET):
        return
    folder = segment_folder(path)
    for found in find_segments(Path(folder)):
        files_read.refuse(found)
        if not overwrite:
            raise UsageError(
                f"Expected no files in `{folder}`, found `{found.name}`; give --overwrite to replace them"
            )
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(
            f"Expected a folder or nothing at `{folder}`, where a long run puts its files, found a file"
        )


def file_name(query: str) -> str:
    """The query's name with what is not a letter, digit, `_`, `-` or `.` as %XX; long ones end in a hash."""
    escaped = "".join(
        letter if letter in SAFE or letter.isalnum() else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in query
    )
    if escaped.startswith("."):
        escaped = "%2E" + escaped[1:]
    if len(escaped.encode()) <= LONGEST_NAME_BYTES:
        return escaped
    start = escaped.encode()[: LONGEST_NAME_BYTES - 40].decode(errors="ignore")
    return f"{start}~{blake2b(query.encode(), digest_size=16).hexdigest()}"


def _allow_files(count: int) -> None:
    """Raise the process's limit of open files, as far as the system lets us, to hold `count` results open."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = count + _open_files(soft) + SPARE_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _open_files(limit: int) -> int:
    """How many files the process has open: the limit, if none is free, as to list them takes one."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError as error:
        return limit if error.errno == errno.EMFILE else 0
