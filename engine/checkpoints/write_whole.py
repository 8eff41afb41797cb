"""A file put in the place of another, or where none was: all at once and for good.

It is written beside the one it replaces, under a name of its own, brought to the disk, and then takes the
other's name: whatever happens, there is the old one or the new one. Who is killed before that leaves
`.<name>.<number>.part` behind, and whoever writes the file next removes it. Writers hold a lock on theirs,
so that nobody takes it for one that was left.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from penstock.engine.rows.array_memory import Buffer


def write_whole(path: str | os.PathLike[str], parts: Iterable[Buffer]) -> None:
    """Write the file, with the rights that new files have; raises OSError, and then nothing has changed."""
    target = Path(path)
    remove_leftovers(target)
    with open_part(target) as file:
        try:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, target)  # still locked
        except BaseException:
            os.unlink(file.name)
            raise
    sync_folder(target.parent)


def open_part(target: Path) -> BinaryIO:
    """A new file beside this one, locked where the file system has locks."""
    while True:
        file = open(target.with_name(f".{target.name}.{secrets.token_hex(4)}.part"), "xb")  # noqa: SIM115
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # taken for one that was left, before it was locked


def remove_leftovers(target: Path) -> None:
    """Remove what writers of this file have left that were killed."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with contextlib.suppress(OSError), left.open("r+b") as file:  # locked: at work. Or not ours to remove
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def sync_folder(folder: Path) -> None:
    """Bring a change of names to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
