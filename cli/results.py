"""Where results go while a run lasts: standard output or a folder of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.compile_notice import compile_notice
from penstock.connectors.json_text import to_json_lines
from penstock.engine.rows.errors import PenstockError

from .flushing import Flushing
from .interrupts import Interrupts
from .session import note

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.connectors.files_read import FilesRead
    from penstock.connectors.writers import OutputFormat, Writer
    from penstock.query import Query

FLUSH_S = 5.0


class Results:
    """Subscribes to every query; as a context it sees to it that files are whole, whatever happens."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        interrupts: Interrupts,
        files_read: FilesRead,
        folder: str | None = None,
        format_: OutputFormat = "parquet",
        overwrite: bool = False,
        flush_s: float = FLUSH_S,
    ) -> None:
        self._interrupts = interrupts
        self._writers: dict[str, Writer] = {}
        self._failure: PenstockError | BrokenPipeError | None = None
        self._flushing = Flushing(flush_s, lambda: compile_notice.count)
        write = None
        if folder is not None:
            from penstock.connectors.writers import open_writers

            schemas = {name: query.schema for name, query in queries.items()}
            self._writers = open_writers(folder, format_, schemas, overwrite=overwrite, files_read=files_read)
        else:
            from .standard_output import StandardOutput

            write = StandardOutput(files_read).write
        for name, query in queries.items():
            query.subscribe(self._receiver(name, write))

    def _receiver(self, name: str, write: Callable[[bytes], None] | None) -> Callable[[pa.RecordBatch], None]:
        def receive(batch: pa.RecordBatch) -> None:
            if self._failure is not None:
                return
            try:
                if write is not None:
                    text = to_json_lines(batch, name)
                    with self._interrupts.held():
                        write(text)
                else:
                    with self._interrupts.held():
                        self._writers[name].write(batch)
            except (PenstockError, BrokenPipeError) as error:
                self._failure = error  # the engine's work is not to be blamed: `look` raises it

        return receive

    def look(self) -> None:
        """Called after every step: raises what writing has met, brings results to the disk if it is time."""
        if self._failure is not None:
            raise self._failure
        if self._flushing.is_due:
            with self._interrupts.held():
                self._flushing.flush(self._flush)

    def _flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def path_of(self, name: str) -> str | None:
        """The query's file, or the folder of its files; None if results go to standard output."""
        return os.path.normpath(self._writers[name].path) if name in self._writers else None

    def __enter__(self) -> Results:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close()
        if kind is None:
            self.look()
            self._merge()

    def _close(self) -> None:
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

    def _merge(self) -> None:
        """Few large files; an interrupt may come meanwhile, and no results are lost if it fails."""
        for writer in self._writers.values():
            try:
                writer.merge()
            except (PenstockError, MemoryError) as error:
                note(f"Note: the files in `{writer.path}` were not merged: {error}")
