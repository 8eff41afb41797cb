"""Which files each input has, in the order in which they were first seen: a file's place never changes.

Spark names what it has read by numbers, and asks for the same again after a crash. The order is kept in a
file that is replaced whole, so that a number means the same files for ever; with it stands whose they are.
"""

from __future__ import annotations

import glob
import json
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path

from penstock.connectors.inputs import expand
from penstock.connectors.source import file_error
from penstock.engine.checkpoints.write_whole import write_whole
from penstock.engine.rows.errors import FileError, UsageError
from penstock.optimizer.read.same_text import is_same_text

NAME = "files.json"


class FileLog:
    """The files of all inputs, by stream."""

    def __init__(self, folder: str, patterns: Mapping[str, str], owner: str) -> None:
        """owner: the query as it is written, whose folder this is from now on."""
        self._path = Path(folder, NAME)
        self._patterns = patterns
        self._owner = owner
        self.files: dict[str, list[str]] = {stream: [] for stream in sorted(patterns)}
        if self._path.exists():
            kept = json.loads(self._path.read_text())
            if not is_same_query(kept["owner"], owner) or sorted(kept["files"]) != sorted(patterns):
                raise UsageError(
                    f"Expected the state of `{one_line(owner)}` in `{folder}`, found that of "
                    f"`{one_line(kept['owner'])}`: each query has a stateLocation of its own"
                )
            self.files |= kept["files"]

    def look(self) -> None:
        """Take in the files that are new, in natural order of their names."""
        before = {stream: len(files) for stream, files in self.files.items()}
        for stream, pattern in self._patterns.items():
            known = set(self.files[stream])
            try:
                found = whole_files(pattern)
            except FileError:  # none yet
                found = []
            self.files[stream] += [path for path in found if path not in known]
        if before != {stream: len(files) for stream, files in self.files.items()}:
            self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, [json.dumps({"owner": self._owner, "files": self.files}).encode()])

    def between(self, start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, list[str]]:
        """The files of each stream from one place to another; streams without any are left out."""
        found = {
            stream: files[start.get(stream, 0) : end.get(stream, 0)] for stream, files in self.files.items()
        }
        return {stream: files for stream, files in found.items() if files}


def whole_files(pattern: str) -> list[str]:
    """The files a path or pattern names, as Spark sees them: without marks like `_SUCCESS`."""
    found = expand(pattern)
    if glob.has_magic(pattern):
        found = [path for path in found if is_whole(path)]
    if not found:
        raise file_error(f"Expected files with rows matching `{pattern}`, found none", pattern)
    return found


def is_whole(path: str) -> bool:
    """Not one that Spark and others are still writing, nor an empty one."""
    name = os.path.basename(path)
    return not name.startswith(("_", ".")) and os.path.isfile(path) and os.path.getsize(path) > 0


def is_same_query(one: str, other: str) -> bool:
    """Whether two texts, a name before each, are of one query."""
    (name, _, sql), (other_name, _, other_sql) = one.partition(": "), other.partition(": ")
    return name == other_name and is_same_text(sql, other_sql)


def one_line(sql: str) -> str:
    return textwrap.shorten(sql, 100, placeholder=" ...")
