"""The folder of an engine's states: on a disk that this machine mounts, or wherever pyarrow.fs reaches.

state/, file:/state         a folder; files are written beside their place and moved there, synced
s3://, gs://, hdfs:// ...   what pyarrow.fs opens; s3a:// and gcs://, as Spark says, are s3:// and gs://
pyarrow.fs.FileSystem       one of the user's, its root the folder
dbfs:/ and others           refused by name
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from penstock.engine.checkpoints.write_whole import write_whole
from penstock.engine.rows.array_memory import Buffer
from penstock.engine.rows.errors import UsageError

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters at least
SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Schemes of Spark's and what pyarrow.fs calls them."""
HINTS = {"dbfs": "Databricks mounts it as `/dbfs/...`"}


class StateFolder(Protocol):
    """Whole files by name."""

    def names(self) -> list[str]:
        """The files that are there; none if the folder is not."""

    def read(self, name: str) -> bytes | None:
        """A file; None if it is not there."""

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        """A file, whole or not at all, in place of what was there."""

    def create(self, name: str, data: bytes) -> bool:
        """A file where there was none; False if there is one."""

    def remove(self, name: str) -> None:
        """A file that may have gone already."""


def open_folder(state: str | Path | fs.FileSystem) -> StateFolder:
    """The folder meant; UsageError if it is none that can be reached."""
    if isinstance(state, fs.FileSystem):
        return RemoteFolder(state, "", state.type_name)
    written = str(state)
    found = SCHEME.match(written)
    if found is None:
        return LocalFolder(Path(state))
    scheme = found[1].lower()
    if scheme == "file":
        return LocalFolder(Path(path_of_file(written)))
    rest = written[found.end() :]
    if scheme in HINTS or not rest.startswith("//"):
        hint = HINTS.get(scheme, f"A folder of that name is `./{written}`")
        raise UsageError(f"Expected a folder or a URI as `s3://...` for states, found `{written}`. {hint}")
    try:
        system, path = fs.FileSystem.from_uri(f"{SAME.get(scheme, scheme)}:{rest}")
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"Expected a folder, or a URI that pyarrow.fs opens, for states, found `{written}` ({reason}). "
            "Mount it, or give a pyarrow.fs.FileSystem whose root it is"
        ) from None
    return RemoteFolder(system, path, written)


def path_of_file(uri: str) -> str:
    """The path of a file system's URI: of `file:/tmp/x` and `file:///tmp/x`, `/tmp/x`."""
    path = re.sub("^file:(//(localhost)?(?=/))?", "", uri, flags=re.IGNORECASE)
    if not path.startswith("/") or path.startswith("//"):
        raise UsageError(f"Expected a path from the root of this machine's files, found `{uri}`")
    return path


class LocalFolder:
    """A folder of this machine's file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        write_whole(self.place(name), parts)

    def place(self, name: str) -> Path:
        """The path of a file that is to be written."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / name

    def create(self, name: str, data: bytes) -> bool:
        """Its name and what is in it come at once, by a link to a file that is whole."""
        target = self.place(name)
        handle, made = tempfile.mkstemp(prefix=f".{name}.", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.link(made, target)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            try:
                with open(target, "xb") as file:
                    file.write(data)
            except FileExistsError:
                return False
        finally:
            os.unlink(made)
        return True

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class RemoteFolder:
    """A folder of a file system of pyarrow's. Few of them can create a file only if there is none: of two who
    create one at the same time, both may believe they have, until they read it again."""

    def __init__(self, system: fs.FileSystem, path: str, written: str) -> None:
        self._system = system
        self._path = path.rstrip("/")
        self._written = written

    def __str__(self) -> str:
        return self._written

    def names(self) -> list[str]:
        found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [one.base_name for one in found if one.type == fs.FileType.File]

    def read(self, name: str) -> bytes | None:
        if self._system.get_file_info(self._at(name)).type != fs.FileType.File:
            return None
        with self._system.open_input_stream(self._at(name)) as file:
            return bytes(file.read())

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        if self._path:
            self._system.create_dir(self._path, recursive=True)
        unfinished = self._at(f".{name}.part")
        with self._system.open_output_stream(unfinished) as file:
            for part in parts:
                file.write(part)
        self.remove(name)  # not every file system moves over what is there
        self._system.move(unfinished, self._at(name))

    def create(self, name: str, data: bytes) -> bool:
        if name in self.names():
            return False
        self.write(name, [data])
        return self.read(name) == data

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path else name
