"""What the system says against writing, as a FileError of one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine.rows.errors import FileError

from .source import file_error


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns what the system says against writing `path` into a FileError of one line."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: str, error: OSError) -> FileError:
    """The FileError for a failed write."""
    reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
    return file_error(f"Expected to write `{path}`, found: {reason}", path)
