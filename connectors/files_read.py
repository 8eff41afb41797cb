"""The files a run reads, and those that are taken: no results may be written there, however they are spelt.

A file is known by its device and its number on it, which links, hard links and relative paths do not change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from penstock.engine.rows.errors import UsageError

from .source import STANDARD_INPUT, show_path

FileId: TypeAlias = tuple[int, int]


class FilesRead:
    """Asked before a file is opened for writing, replaced or removed."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._names: dict[FileId, str] = {}
        for path in paths:
            if (found := file_id(0 if path == STANDARD_INPUT else path)) is not None:
                self._names.setdefault(found, f"what is read as `{show_path(path)}`")

    def take(self, path: str, what: str) -> None:
        """Nothing else may be written to a file that is being written."""
        if (found := file_id(path)) is not None:
            self._names.setdefault(found, what)

    def refuse(self, path: str | Path | int, shown: str | None = None) -> None:
        """UsageError if `path`, a name or a file descriptor, is one of the files."""
        name = None if (found := file_id(path)) is None else self._names.get(found)
        if name is not None:
            read = name.removesuffix(f" as `{path}`")
            raise UsageError(
                f"Expected results to go elsewhere than {read}, found `{shown or path}` for both"
            )


def file_id(path: str | Path | int) -> FileId | None:
    """What a file is known by; None if there is none, or nothing that a write could destroy."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def refuse_same(paths: Mapping[str, str]) -> None:
    """UsageError if two queries' files, by query, are one file under two names."""
    names: dict[FileId, str] = {}
    for path in paths.values():
        if (found := file_id(path)) is not None and names.setdefault(found, path) != path:
            raise UsageError(f"Expected a file for each query, found one as `{names[found]}` and `{path}`")
