"""Where results go while a run lasts: standard output or a folder of files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.connectors.json_text import to_json_lines
from penstock.engine.errors import PenstockError

from .interrupts import Interrupts

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.connectors.writers import OutputFormat, Writer
    from penstock.query import Query


class WriteFailed(Exception):
    """Tells a writer's error from what else a subscriber may raise."""

    def __init__(self, error: PenstockError) -> None:
        self.error = error


class Results:
    """Subscribes to every query; `close` must be called, whatever happens, for files to be whole."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        interrupts: Interrupts,
        folder: str | None = None,
        format_: OutputFormat = "parquet",
        overwrite: bool = False,
    ) -> None:
        self._interrupts = interrupts
        self._writers: dict[str, Writer] = {}
        if folder is not None:
            from penstock.connectors.writers import open_writers

            schemas = {name: query.schema for name, query in queries.items()}
            self._writers = open_writers(folder, format_, schemas, overwrite=overwrite)
        for name, query in queries.items():
            query.subscribe(self._receiver(name))

    def _receiver(self, name: str) -> Callable[[pa.RecordBatch], None]:
        writer = self._writers.get(name)
        if writer is not None:

            def receive(batch: pa.RecordBatch) -> None:
                try:
                    with self._interrupts.held():
                        writer.write(batch)
                except PenstockError as error:
                    raise WriteFailed(error) from error

        else:

            def receive(batch: pa.RecordBatch) -> None:
                text = to_json_lines(batch, name)
                with self._interrupts.held():
                    sys.stdout.buffer.write(text)
                    sys.stdout.buffer.flush()

        return receive

    def path_of(self, name: str) -> str | None:
        """The query's file, None if results go to standard output."""
        return os.path.normpath(self._writers[name].path) if name in self._writers else None

    def close(self) -> None:
        """Finish every file; the first that cannot be finished is reported after all have been tried."""
        failure: PenstockError | None = None
        with self._interrupts.held():
            for writer in self._writers.values():
                try:
                    writer.close()
                except PenstockError as error:
                    failure = failure or error
        if failure is not None:
            raise failure
