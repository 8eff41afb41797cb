"""A file of lines that others follow while it grows: whole lines at any time, and on the disk now and then.

What a write could not bring in whole is cut off again, so that a full disk leaves the last whole line at the
end; after a failed sync, which does not say what is lost, the last line that an earlier sync covers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress


def last_line_end(text: bytes) -> int:
    """Where the last line ends that is whole, for text in which no line end stands within a value."""
    return text.rfind(b"\n") + 1


class LineFile:
    """Grows by whole lines through a file descriptor; raises OSError."""

    def __init__(self, handle: int, last_end: Callable[[bytes], int] = last_line_end) -> None:
        """last_end: the place after the last whole line, 0 if there is none."""
        self._handle = handle
        self._last_end = last_end
        # A pipe, a terminal or a device has no length and no disk.
        self._is_regular = stat.S_ISREG(os.fstat(handle).st_mode)
        self._length = self._synced = os.lseek(handle, 0, os.SEEK_CUR) if self._is_regular else 0
        self._is_cut = False

    def write(self, lines: bytes) -> None:
        """All of `lines`, or as many as there is room for."""
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._handle, left) :]
        except OSError:
            self._cut(self._length + self._last_end(lines[: len(lines) - len(left)]))
            raise
        self._length += len(lines)

    def sync(self) -> None:
        """Bring what was written since the last time to the disk."""
        if not self._is_regular or self._synced == self._length or self._is_cut:
            return
        try:
            os.fsync(self._handle)
        except OSError:
            self._cut(self._synced)
            raise
        self._synced = self._length

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._handle)

    def _cut(self, length: int) -> None:
        """Only what stands before `length` stays; nothing can be done about a file that cannot be cut."""
        self._is_cut = True
        if self._is_regular:
            with suppress(OSError):
                os.ftruncate(self._handle, length)
                os.lseek(self._handle, length, os.SEEK_SET)
                self._length = self._synced = length


def open_lines(path: str, last_end: Callable[[bytes], int] = last_line_end) -> LineFile:
    """The file `path`, empty; a link is followed, and a named pipe is waited for."""
    return LineFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666), last_end)
