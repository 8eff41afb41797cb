"""Results as Parquet: a file gets its name when it is whole and on the disk, whatever ends the run.

A run that ends before the first flush gives one file, `hot.parquet`. Each flush of a longer one gives a
segment, `hot/000001.parquet` and so on, so that who is killed loses what came since the last flush. At the
end of its input they are merged (segments.py).

    rows     ..... ..... ....       killed here
    flush         1     2
    hot/     000001 000002 | .000003.parquet.5f3a1c09.part
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.engine.checkpoints.write_whole import sync_folder

from .parquet_part import ParquetPart
from .segments import merge_segments, remove_segments, segment
from .writing import writing


class ParquetWriter:
    """One file, or segments."""

    def __init__(self, path: str, folder: str, schema: pa.Schema, group_rows: int) -> None:
        """folder: where segments go if there are any; then it is the `path`."""
        self.path = path
        self._target = Path(path)
        self._folder = Path(folder)
        self._schema = schema
        self._group_rows = group_rows
        self._segments = 0
        self._is_long = False
        self._part: ParquetPart | None = ParquetPart(self._target, schema, group_rows)

    def write(self, batch: pa.RecordBatch) -> None:
        with self._writing():
            if self._part is None:
                place = segment(self._folder, self._segments + 1)
                self._part = ParquetPart(place, self._schema, self._group_rows)
            self._part.add(batch)

    def flush(self) -> None:
        """What has come since the last flush becomes a segment, if there is anything."""
        self._is_long = True
        if self._part is not None and self._part.rows:
            self._finish_segment()

    def close(self) -> None:
        """All that was written is in its place."""
        if self._part is None:
            return
        if self._is_long:
            self._finish_segment()
        else:
            self._finish(self._target)
            with writing(self.path):
                remove_segments(self._folder)  # of a run before

    def merge(self) -> None:
        """Segments, after `close`, become large files: all of them, or nothing changes."""
        if self._segments > 1:
            with writing(self.path):
                merge_segments(self._folder, self._schema)

    def _finish_segment(self) -> None:
        if not self._segments:
            with self._writing():
                remove_segments(self._folder)
                self._folder.mkdir(exist_ok=True)
                sync_folder(self._folder.parent)
        self._finish(segment(self._folder, self._segments + 1))
        self._segments += 1
        if self._segments == 1:
            self.path = str(self._folder)
            with writing(self.path):
                self._target.unlink(missing_ok=True)  # of a run before

    def _finish(self, place: Path) -> None:
        assert self._part is not None, "nothing has been written"
        with self._writing():
            self._part.finish(place)
        self._part = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """If it fails, the file that is being written is given up."""
        try:
            with writing(self.path):
                yield
        except BaseException:
            if self._part is not None:
                self._part.drop()
                self._part = None
            raise
