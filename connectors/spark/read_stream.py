"""Results of a query as a stream of Spark, over files that come into folders.

A batch is a number of new files of each input. One task pushes them, in time order, into the engine as it
was after the batch before, and passes on what comes out; then the engine's state goes to `stateLocation`,
under the name of the place it has reached. Results follow from the files alone, wherever batches are cut, so
a batch that Spark asks for again gives the same rows again, and nothing is lost or doubled:

    files      a1 a2 | a3 a4 | a5          offset  {"a": 2}  {"a": 4}  {"a": 5}
    state        files-2   files-4   files-5       batch 3 starts from files-4

A state that is missing (Spark did not read the batch to its end, or the folder was emptied) is made again
from the newest one before it. States go when Spark says that what follows them is done for good.

Time comes as far as each stream has shown: results that wait for a stream without new files come with its
next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from penstock.api import Engine
from penstock.carry_on import carry_on
from penstock.connectors.batch import rows_with_time
from penstock.connectors.merge import read_in_time_order
from penstock.connectors.open_inputs import open_feeds, push_batch

from .at_hand import EnginesAtHand
from .dropped import dropped_by, warn
from .file_log import FileLog
from .request import Request
from .schema import label_instants
from .settle import is_settled, settle
from .start_engine import LATE
from .table_rows import TableFiles, check_rows

if TYPE_CHECKING:
    import pyarrow as pa

Place = dict[str, int]
"""How many files of each stream."""

FILES = "files"
_at_hand = EnginesAtHand()
"""By folder; marked with what it was made of and the place it has reached. Tasks of a query run in turn."""


class FilesRead(InputPartition):
    """One batch: from one place to another."""

    def __init__(self, start: Place, end: Place) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


class ResultStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one for the query, which plans, and one for each task, which reads."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._folder = request.require("stateLocation")
        engine = request.engine(LATE)
        query = request.only_query(engine)
        self._owner = f"{query.name}: {query.sql}"
        patterns = request.named_inputs(engine)
        self._tables = {
            name: TableFiles(one, engine.tables[name])
            for name, one in patterns.items()
            if name in engine.tables
        }
        self._patterns = {name: one for name, one in patterns.items() if name not in engine.tables}
        self._last: Place | None = None
        """Where to stop, if only what is there at the start is wanted."""

    def initialOffset(self) -> Place:
        return dict.fromkeys(sorted(self._patterns), 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._request.max_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._newest()

    def latestOffset(self, start: Place, limit: ReadLimit) -> Place:
        newest = self._newest() if self._last is None else self._last
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else max(newest.values())
        begun = {stream: start.get(stream, 0) for stream in newest}
        return {stream: max(begun[stream], min(newest[stream], begun[stream] + most)) for stream in newest}

    def _newest(self) -> Place:
        log = self._log()
        log.look()
        return {stream: len(log.files[stream]) for stream in sorted(self._patterns)}

    def _log(self) -> FileLog:
        return FileLog(self._folder, self._patterns, self._owner)

    def partitions(self, start: Place, end: Place) -> Sequence[InputPartition]:
        return [] if start == end else [FilesRead(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilesRead)
        log = self._log()
        asked = self._asked()
        engine = _at_hand.take(self._folder, (asked, partition.start))
        if engine is None:
            engine = self._engine_at(partition.start, log)
        before, untimed = dropped_by(engine, {}), Counter[str]()
        yield from self._results(engine, log.between(partition.start, partition.end), untimed)
        warn(before, dropped_by(engine, untimed), f"Files up to {state_name(partition.end)}")
        engine.checkpoint(self._state(partition.end))
        if is_settled(FILES):
            _at_hand.keep(self._folder, (asked, partition.end), engine)
        del engine
        settle(FILES)

    def _asked(self) -> tuple[Any, ...]:
        """What an engine is made of: changes with the statements and with the files of tables."""
        tables = [one.stamps() for one in self._tables.values()]
        return self._request.sql, str(self._request.engine_options), *tables

    def _results(
        self, engine: Engine, files: Mapping[str, list[str]], untimed: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        """What comes out when these files are pushed; `untimed` takes how many rows have no time."""
        query = self._request.only_query(engine)
        feeds = open_feeds(engine, {stream: [paths] for stream, paths in files.items()})
        try:
            for step in read_in_time_order(feeds):
                if step.batch is not None:
                    timed = rows_with_time(step.batch, engine.time_column(step.stream))
                    untimed[step.stream] += len(step.batch) - len(timed)
                    push_batch(engine, step.stream, timed)
                    yield from label_instants(query.results()).to_batches()
        finally:
            for feed in feeds:
                feed.close()

    def _engine_at(self, place: Place, log: FileLog) -> Engine:
        """The engine as it is when all files up to a place have been pushed."""
        engine, newest = self._request.engine(LATE), self.initialOffset()
        self._request.only_query(engine)
        for name, table in self._tables.items():
            engine.push(name, table.toArrow())
        saved = [one for one in self._saved() if all(one[s] <= place.get(s, 0) for s in one)]
        if saved:
            newest = max(saved, key=lambda one: sum(one.values()))
            restored = Engine.restore(self._state(newest))
            carry_on(engine, restored)
            check_rows(engine, restored)
            engine = restored
        for _ in self._results(engine, log.between(newest, place), Counter()):
            pass  # given before
        return engine

    def _saved(self) -> list[Place]:
        """The places of which there is a state."""
        streams = sorted(self._patterns)
        found = []
        for path in Path(self._folder).glob("files-*.penstock"):
            counts = [int(one) for one in re.findall(r"\d+", path.stem)]
            if len(counts) == len(streams):
                found.append(dict(zip(streams, counts, strict=True)))
        return found

    def _state(self, place: Place) -> Path:
        return Path(self._folder, f"{state_name(place)}.penstock")

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing before this place is asked for again."""
        for place in self._saved():
            if place != end and all(place[stream] <= end.get(stream, 0) for stream in place):
                self._state(place).unlink(missing_ok=True)


def state_name(place: Place) -> str:
    return "-".join(["files", *(str(place[stream]) for stream in sorted(place))])
