"""Standard output for results: whole lines, also on a full disk; nothing is written where nobody reads."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import BinaryIO

from penstock.connectors.files_read import FilesRead
from penstock.connectors.line_file import LineFile
from penstock.connectors.writing import write_error

NAME = "standard output"


class StandardOutput:
    """Lines to whoever reads; raises FileError, BrokenPipeError when the reader has gone."""

    def __init__(self, files_read: FilesRead) -> None:
        self._stream: LineFile | BinaryIO | None = None
        if sys.stdout is None:
            return
        try:
            handle = sys.stdout.fileno()
        except io.UnsupportedOperation:  # another object in its place
            self._stream = sys.stdout.buffer
            return
        files_read.refuse(handle, NAME)
        self._stream = LineFile(handle)

    def write(self, lines: bytes) -> None:
        try:
            if self._stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._stream.write(lines)
            if not isinstance(self._stream, LineFile):
                self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise write_error(NAME, error) from error
