"""The segments of a query's results, `hot/000001.parquet` and so on: their names, and how they are merged.

Merged files are written into a folder beside, which then takes the other's place, so that whoever reads the
folder finds every row once at any time. Where the file system cannot exchange two names, the folder first
moves aside: who is killed just then finds it as `.hot.*.old`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from penstock.engine.checkpoints.write_whole import remove_leftovers, sync_folder

from .parquet_part import ParquetPart
from .source import file_error

MERGED_BYTES = 128 << 20
READ_ROWS = 1 << 12  # of rows that were written as numbers in a dictionary, and may be long
SEGMENT = re.compile(r"\d{6,}\.parquet")
PART = re.compile(r"\.(\d{6,}\.parquet)\.\w+\.part")
AT_THIS_FOLDER, EXCHANGE = -100, 2  # renameat2(2)
NOT_BUILT = (errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EOPNOTSUPP)


def segment(folder: Path, number: int) -> Path:
    """The place of the `number`th segment, from 1."""
    return folder / f"{number:06}.parquet"


def find_segments(folder: Path) -> list[Path]:
    """The segments there are, in order."""
    if not folder.is_dir():
        return []
    names = [name for name in os.listdir(folder) if SEGMENT.fullmatch(name)]
    return [folder / name for name in sorted(names, key=lambda name: int(name.partition(".")[0]))]


def remove_segments(folder: Path) -> None:
    """Remove the segments, and the folder if nothing else is in it; also what was left by who was killed."""
    for path in find_segments(folder):
        path.unlink()
    for part in map(PART.fullmatch, os.listdir(folder) if folder.is_dir() else ()):
        if part:
            remove_leftovers(folder / part[1])
    with suppress(OSError):  # files that are not ours, or no folder
        folder.rmdir()
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.merged"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)


def merge_segments(folder: Path, schema: pa.Schema) -> None:
    """Make files of at least MERGED_BYTES of the segments, or one; OSError: nothing has changed."""
    paths = find_segments(folder)
    others = sorted(set(os.listdir(folder)) - {path.name for path in paths})
    if others:
        raise file_error(f"Expected only results in `{folder}`, found `{others[0]}`", str(folder))
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.merged")
    beside.mkdir()
    try:
        with _locked(beside):
            _write_merged(paths, beside, schema)
            _put_in_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_merged(paths: list[Path], beside: Path, schema: pa.Schema) -> None:
    """Gather segments until they are enough; the last file takes what would be too little for one more."""
    left = sum(path.stat().st_size for path in paths)
    number, part = 0, None
    last: list[Path] = []  # what the file before this one was made of
    own: list[Path] = []
    try:
        for path in paths:
            if part is None:
                number += 1
                part, own = ParquetPart(segment(beside, number), schema), []
            _copy(path, part)
            own.append(path)
            left -= path.stat().st_size
            if part.size >= MERGED_BYTES and left >= MERGED_BYTES:
                part.finish(segment(beside, number))
                part, last = None, own
        if part is not None and part.size < MERGED_BYTES and last:
            # What was left packs better than it did: one file with those before.
            part.drop()
            number -= 1
            part = ParquetPart(segment(beside, number), schema)
            for path in (*last, *own):
                _copy(path, part)
        if part is not None:
            part.finish(segment(beside, number))
            part = None
    finally:
        if part is not None:
            part.drop()


def _copy(path: Path, part: ParquetPart) -> None:
    """All rows of a file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=READ_ROWS):
            part.add(batch)


def _put_in_place(beside: Path, folder: Path) -> None:
    """Exchange the two folders; then it is the one beside that has the segments."""
    if not _exchange(beside, folder):
        old = beside.with_suffix(".old")
        os.rename(folder, old)
        try:
            os.rename(beside, folder)
        except OSError:
            os.rename(old, folder)
            raise
        os.rename(old, beside)
    sync_folder(folder.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Each takes the other's name, at once; False where that is not built."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_THIS_FOLDER, os.fsencode(one), AT_THIS_FOLDER, os.fsencode(other), EXCHANGE) == 0:
        return True
    found = ctypes.get_errno()
    if found in NOT_BUILT:
        return False
    raise OSError(found, os.strerror(found), str(one))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Held against who removes leftovers; OSError if another holds it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
