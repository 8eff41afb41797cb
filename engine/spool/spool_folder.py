"""The files of an engine's spools: in a folder of their own, within a limit, kept as long as one may ask.

In:      blocks of rows, of all spools of an engine.
Kept:    files that a spool has not read to the end; and those that one of the last two checkpoints names, as
         whoever is restored from it reads them again.
Dropped: a file that is read, when no such checkpoint names it; all of them when the engine goes, if no
         checkpoint was ever made.

A folder may serve several engines. Each has a part of it, which it locks as long as it lives: parts that are
not locked were left by engines that were killed. Without a checkpoint they go when the next engine begins;
else the engine that is restored takes them over, and removes what was written after its checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from penstock.engine.restoring.in_order import FAR, expect
from penstock.engine.rows.array_memory import Buffer
from penstock.engine.rows.errors import CheckpointError, PenstockWarning, UsageError

from .part_files import discard, is_part, is_saved, keep_only, lock, new_part, remove_left, sync_all, write_at

NOT_HELD, WITHOUT_LOCK = -1, -2
"""A part that is another engine's, or that a checkpoint names; one's own where files cannot be locked."""
GENERATIONS = 2
"""Checkpoints whose files stay: the last may be lost before it is safe where it goes."""


class SpoolFolder:
    """Of one engine. limit: most bytes in files; None: as many as the disk takes."""

    def __init__(self, folder: str, limit: int | None) -> None:
        self.folder = folder
        self.limit = limit
        self.refused = 0
        """Blocks that could not be written."""
        self.fault: str | None = None
        """Why the last of them could not."""
        self._files: dict[str, int] = {}
        """Those that there are, with their sizes."""
        self._read: set[str] = set()
        """Those that no spool needs any more."""
        self._named: list[frozenset[str]] = []
        """By the last checkpoints."""
        self._part: str | None = None
        self._lock = NOT_HELD
        self._made = 0
        try:
            os.makedirs(folder, exist_ok=True)
            remove_left(folder)
        except OSError as error:
            raise UsageError(
                f"Expected a folder to spool to, found {error.strerror or error} at `{folder}`"
            ) from None

    @property
    def nbytes(self) -> int:
        """In files, also in those that only a checkpoint needs."""
        return sum(self._files.values())

    # -- writing ------------------------------------------------------------------------------------

    def new_file(self) -> str:
        """The name of a file that does not exist."""
        if self._part is None or self._lock == NOT_HELD:
            self._part = new_part(self.folder)
            held = lock(self._part)
            self._lock = WITHOUT_LOCK if held < 0 else held
            weakref.finalize(self, discard, self._part, self._lock)
        self._made += 1
        return os.path.join(self._part, f"{self._made}.rows")

    def write(self, path: str | None, parts: Sequence[Buffer]) -> tuple[str, int] | None:
        """Put a block at the end of a file, or into a new one: where it is; None: there is no room."""
        size = sum(memoryview(one).nbytes for one in parts)
        if self.limit is not None and self.nbytes + size > self.limit:
            self._refuse(f"spool_limit of {self.limit:,} bytes reached", is_expected=True)
            return None
        at = 0 if path is None else self._files[path]
        try:
            path = path or self.new_file()
            write_at(path, at, parts)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            self._refuse("no room left" if is_full else error.strerror or str(error))
            return None
        self._files[path] = at + size
        return path, at

    def _refuse(self, fault: str, is_expected: bool = False) -> None:
        """Rows stay in memory. It is said once of each fault that nobody has asked for."""
        self.refused += 1
        if not is_expected and fault != self.fault:
            warnings.warn(
                f"Expected to write rows to the spool in `{self.folder}`, found {fault}: "
                "they stay in memory, and the next best strategy is taken",
                PenstockWarning,
                stacklevel=2,
            )
        self.fault = fault

    def remove(self, path: str) -> None:
        """No spool needs the file any more."""
        if any(path in names for names in self._named):
            self._read.add(path)
            return
        self._files.pop(path, None)
        self._read.discard(path)
        is_own = os.path.dirname(path) == self._part and self._lock != NOT_HELD
        if is_own:  # else it is another engine's
            with contextlib.suppress(OSError):
                os.unlink(path)

    # -- checkpoints --------------------------------------------------------------------------------

    def name_all(self) -> None:
        """A checkpoint is about to be made, which names the files that spools need: bring them to the
        disk."""
        needed = frozenset(path for path in self._files if path not in self._read)
        if needed:
            sync_all(self._part, needed)
        self._named = [*self._named, needed][-GENERATIONS:]
        self._remove_read()

    def forget_last(self) -> None:
        """The checkpoint could not be written."""
        self._named = self._named[:-1]
        self._remove_read()

    def _remove_read(self) -> None:
        for path in sorted(self._read):
            self.remove(path)

    def take_over(self, source: str) -> None:
        """Go on with the files that a checkpoint names; raises CheckpointError if they are not all there."""
        for path, size in self._files.items():
            try:
                found = os.path.getsize(path)
            except (OSError, ValueError):
                found = 0
            if found < size:
                raise CheckpointError(
                    f"Expected {size:,} bytes of a spool in `{path}`, found {found:,}",
                    source=source,
                    hint="Rows of the checkpoint are there",
                )
        self._named = [frozenset(self._files)]
        part, self._part = self._part, None
        if part is None or not is_saved(part):
            return
        held = lock(part)
        if held < 0:  # whose files they are is still at work
            return
        self._part, self._lock = part, held
        weakref.finalize(self, discard, part, held)
        keep_only(part, self._files)

    def __getstate__(self) -> dict[str, Any]:
        """Of a checkpoint no lock is a part, nor are files that no spool needs."""
        own = {path: size for path, size in self._files.items() if path not in self._read}
        return self.__dict__ | {"_files": own, "_read": set(), "_named": [], "_lock": NOT_HELD}

    def has(self, path: str, end: int) -> bool:
        """Whether there is a file that is as long."""
        return end <= self._files.get(path, 0)

    def _check_restored(self) -> None:
        expect(self._lock == NOT_HELD and not self._read and not self._named, "files as they are needed")
        expect(all(0 < size < FAR for size in self._files.values()), "sizes of files")
        expect(self.limit is None or 0 < self.limit < FAR, "a limit of a spool")
        parts = [*(os.path.dirname(path) for path in self._files), *filter(None, [self._part])]
        is_here = all(is_part(part) and os.path.dirname(part) == self.folder for part in parts)
        expect(is_here and os.path.isabs(self.folder), "parts of a spool's folder")
        expect(all(path.endswith(".rows") for path in self._files), "files of rows")
