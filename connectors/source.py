"""The bytes of one input: a file, a named pipe or standard input, decompressed, with a look ahead.

The format comes from the extension; where that says nothing (standard input, `/dev/fd/63`, `data.bin`)
from the first bytes. Parquet and Arrow files need to seek: a pipe of them is spooled to a temporary file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal

import pyarrow as pa

from penstock.engine.rows.errors import FileError

from .live import STANDARD_INPUT, LiveFile, is_live, open_live

Format = Literal["parquet", "csv", "tsv", "jsonl", "ipc"]

FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".ipc": "ipc",
    ".feather": "ipc",
}
FORMAT_NAMES: dict[Format, str] = {
    "parquet": "Parquet",
    "csv": "CSV",
    "tsv": "tab-separated text",
    "jsonl": "JSON lines",
    "ipc": "Arrow IPC",
}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
CODEC_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
PARQUET_MAGIC = b"PAR1"
IPC_FILE_MAGIC = b"ARROW1"
IPC_STREAM_MAGIC = b"\xff\xff\xff\xff"
BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte order mark counts as blank
HEAD_BYTES = 8


def file_error(message: str, path: str) -> FileError:
    """A FileError whose message already says which file."""
    return FileError.naming(message, path)


def show_path(path: str) -> str:
    """How messages name the input."""
    return "standard input" if path == STANDARD_INPUT else path


@contextmanager
def reading(path: str, what: str) -> Iterator[None]:
    """Turns whatever a reader raises about the bytes of `path` into a FileError of one line."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        if isinstance(error, pa.ArrowCancelled):
            raise KeyboardInterrupt from None
        if isinstance(error, MemoryError):
            raise
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileError(
            f"Expected {what}, found a file that is cut short or damaged ({reason})", source=show_path(path)
        ) from error


class Source:
    """An open input; `read` gives what is there, at most `size` bytes, and b"" at the end.

    Short reads keep a live pipe live: rows are passed on when they come, not when a block is full.
    """

    def __init__(self, path: str, wake: int | None = None) -> None:
        """wake: of an input that is live, see live.py."""
        self.path = path
        self._wake = wake
        self.bytes_total: int | None = None
        self._file = self._open()
        self._stream: Any = self._file
        self._head = b""
        self._suffix, codec = _split_suffix(path)
        start = self._file.peek(HEAD_BYTES)[:HEAD_BYTES]
        if not start:
            raise file_error(f"Expected rows in `{show_path(path)}`, found no bytes at all", path)
        if codec is None:
            codec = next((name for magic, name in CODEC_MAGIC.items() if start.startswith(magic)), None)
        self.codec = codec
        if codec is not None:
            self._stream = pa.CompressedInputStream(pa.PythonFile(self._file, mode="r"), codec)

    def _open(self) -> Any:
        path = self.path
        is_waited_for = self._wake is not None and is_live(path)
        if path == STANDARD_INPUT and not is_waited_for:
            return sys.stdin.buffer
        try:
            if self._wake is not None and is_waited_for:
                return open_live(path, self._wake)
            status = os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                raise file_error(
                    f"Expected a file, found the folder `{path}`; name its files, as in `{path}/*.csv`",
                    path,
                )
            file = open(path, "rb", buffering=1 << 20)  # noqa: SIM115
        except FileNotFoundError:
            raise file_error(f"Expected a file at `{path}`, found none", path) from None
        except PermissionError:
            raise file_error(
                f"Expected to be allowed to read `{path}`, found permission denied", path
            ) from None
        except OSError as error:
            raise file_error(f"Expected to read `{path}`, found: {error.strerror}", path) from None
        if stat.S_ISREG(status.st_mode):
            self.bytes_total = status.st_size
        return file

    @property
    def bytes_done(self) -> int:
        """How far into the file, before decompression, reading has come."""
        return self._file.tell() if self.bytes_total is not None else 0

    @property
    def share_done(self) -> float:
        """The part of the file that has been read; 0 throughout where the end is not known."""
        return self.bytes_done / self.bytes_total if self.bytes_total else 0.0

    @property
    def is_seekable(self) -> bool:
        return self.bytes_total is not None and self.codec is None

    def read(self, size: int = -1) -> bytes:
        if self._head:
            head = self._head if size < 0 else self._head[:size]
            self._head = self._head[len(head) :]
            return head
        if self.codec is not None:
            return bytes(self._stream.read(size if size >= 0 else None))
        return self._file.read1(size)

    def unread(self, data: bytes) -> None:
        """Puts `data` back in front of what is still to be read."""
        self._head = data + self._head

    def read_fully(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end; all there are if `size` is negative."""
        parts: list[bytes] = []
        missing = size
        while missing and (part := self.read(missing)):
            parts.append(part)
            missing -= len(part) if size >= 0 else 0
        return b"".join(parts)

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end, without consuming them."""
        found = self.read_fully(size)
        self.unread(found)
        return found

    def detect_format(self) -> Format:
        """The format: by the extension if it is a known one, else by the first bytes."""
        if self._suffix in FORMATS:
            return FORMATS[self._suffix]
        with reading(self.path, "rows"):
            head = self.peek(HEAD_BYTES)
            while not head.strip(BLANK) and len(longer := self.peek(len(head) + 1)) > len(head):
                head = longer
        if head.startswith(PARQUET_MAGIC):
            return "parquet"
        if head.startswith((IPC_FILE_MAGIC, IPC_STREAM_MAGIC)):
            return "ipc"
        return "jsonl" if head.lstrip(BLANK).startswith(b"{") else "csv"

    def as_seekable(self) -> IO[bytes]:
        """A file to seek in: the file itself, or a temporary copy that vanishes when closed."""
        if self.is_seekable:
            self._head = b""
            self._file.seek(0)
            return self._file
        copy = tempfile.TemporaryFile()  # noqa: SIM115
        while data := self.read(1 << 20):
            try:
                copy.write(data)
                copy.flush()
            except OSError as error:
                raise file_error(
                    f"Expected room for a copy of `{show_path(self.path)}` in `{tempfile.gettempdir()}`,"
                    f" found: {os.strerror(error.errno or errno.ENOSPC)}",
                    self.path,
                ) from error
        copy.seek(0)
        return copy

    def as_stream(self) -> pa.PythonFile:
        """An Arrow file over `read_fully`: readers take a short read for the end."""
        return pa.PythonFile(_ReadOnly(self.read_fully), mode="r")

    def close(self) -> None:
        if self.path != STANDARD_INPUT or isinstance(self._file.raw, LiveFile):
            self._file.close()


class _ReadOnly:
    """The part of a Python file that Arrow asks for."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read = read
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


def _split_suffix(path: str) -> tuple[str, str | None]:
    """`temps.csv.gz` is (`.csv`, `gzip`)."""
    stem, suffix = os.path.splitext(os.path.basename(path).lower())
    if suffix in CODECS:
        return os.path.splitext(stem)[1], CODECS[suffix]
    return suffix, None
