"""What is done to files and folders of spools; which of them and when is settled elsewhere (spool_folder.py).

A part of a folder is an engine's own. It is locked as long as the engine lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from penstock.engine.rows.array_memory import Buffer

PREFIX = "penstock-"
LOCK, SAVED = "lock", "in a checkpoint"


def new_part(folder: str) -> str:
    """A part of the folder that nobody else has."""
    return tempfile.mkdtemp(prefix=PREFIX, dir=folder)


def is_part(part: str) -> bool:
    """Whether an engine made it, by its name."""
    return os.path.basename(part).startswith(PREFIX)


def is_saved(part: str) -> bool:
    """Whether a checkpoint names files of it; a folder that no engine made is no such part."""
    return os.path.exists(os.path.join(part, SAVED))


def write_at(path: str, at: int, parts: Sequence[Buffer]) -> None:
    """Write there and no further; raises OSError, and then the file ends where it did."""
    with open(path, "r+b" if at else "wb") as file:
        try:
            file.seek(at)
            for part in parts:
                file.write(part)
            file.flush()
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(at)
            raise


def sync_all(part: str | None, paths: Collection[str]) -> None:
    """Bring files to the disk, and mark the part they are in as one that a checkpoint names."""
    for path in paths:
        sync(path)
    if part is not None:
        Path(part, SAVED).touch()
        sync(part)


def sync(path: str) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def keep_only(part: str, sizes: dict[str, int]) -> None:
    """Remove all files of rows but these, and what is behind their ends."""
    for left in Path(part).glob("*.rows"):
        size = sizes.get(os.fspath(left))
        if size is None:
            left.unlink()
        else:
            os.truncate(left, size)


def lock(part: str) -> int:
    """Hold a part of the folder; below 0: somebody else does."""
    handle = os.open(os.path.join(part, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return -1
    return handle


def remove_left(folder: str) -> None:
    """Remove what engines have left that were killed, if no checkpoint names it."""
    for part in Path(folder).glob(f"{PREFIX}*"):
        if not (part / LOCK).exists() or (part / SAVED).exists():
            continue
        handle = lock(os.fspath(part))
        if handle >= 0:
            shutil.rmtree(part, ignore_errors=True)
            os.close(handle)


def discard(part: str, handle: int) -> None:
    """The engine has gone; what no checkpoint names goes with it."""
    if not is_saved(part):
        shutil.rmtree(part, ignore_errors=True)
    if handle >= 0:
        os.close(handle)
