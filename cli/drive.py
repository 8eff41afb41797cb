"""Pushing steps into an engine: rows, the passing of time, and what goes wrong on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from penstock.api import Engine
from penstock.connectors.batch import NO_TIME, Batch
from penstock.connectors.merge import Beside, Step
from penstock.engine.rows.errors import DataError, HopsError, PenstockError, StoppedError

from .session import note, streams_read


class Driver:
    """Feeds an engine. A query that fails on the data stops alone and is reported; the others go on."""

    def __init__(self, engine: Engine) -> None:
        self.rows = 0
        self.rows_of: Counter[str] = Counter()  # by stream
        self.now_us: int | None = None
        self.first_failure: PenstockError | None = None
        self._engine = engine
        self._failed: set[str] = set()

    def run(self, steps: Iterable[Step], on_step: Callable[[], None], drain: bool = False) -> None:
        """All steps, then the end of the streams; drain: when all bounded windows are empty."""
        for step in steps:
            if step.batch is not None:
                self._push(step.stream, step.batch)
            # Streams that have ended, or have no input at all, must not hold the others' results back.
            if step.reached_us is not None:
                self._guard(partial(self._engine.advance, step.reached_us))
            if step.beside is not None:
                self._pass_by_silent(step.beside)
            on_step()
            if len(self._failed) == len(self._engine.queries):
                return
        self._guard(partial(self._engine.close, drain=drain))

    def _pass_by_silent(self, beside: Beside) -> None:
        """While an input is silent, streams that have ended, or have none, hold none who do without it."""
        for streams in streams_read(self._engine).values():
            going_on = [beside.going_on[stream] for stream in streams if stream in beside.going_on]
            ended = [beside.ended[stream] for stream in streams if stream in beside.ended]
            come = min(going_on) if going_on else max(ended, default=int(NO_TIME))
            for stream in streams if come > NO_TIME else ():
                if stream not in beside.going_on:
                    self._guard(partial(self._engine.advance, come, stream))

    def _push(self, stream: str, batch: Batch) -> None:
        """Rows into a stream; if one is bad those before it still go in, so that batches do not matter."""
        try:
            self._guard(partial(self._engine.push, stream, batch.data))
        except DataError as error:
            if error.row is None:
                raise
            if error.row > 1:
                self._push(stream, batch.slice(0, error.row - 1))
                if isinstance(error, HopsError):  # too many in one push may be few enough in two
                    self._push(stream, batch.slice(error.row - 1, len(batch)))
                    return
            source, row = batch.place(error.row)
            raise type(error)(error.message, source=source, row=row, hint=error.hint) from None
        self.rows += len(batch)
        self.rows_of[stream] += len(batch)
        latest = int(batch.times[-1])
        self.now_us = latest if self.now_us is None else max(self.now_us, latest)

    def _guard(self, action: Callable[[], None]) -> None:
        """Tells a query's failure, after which the engine goes on, from everything else, which is raised."""
        try:
            action()
        except StoppedError as error:
            self.first_failure = self.first_failure or error
            for name, query in self._engine.stats()["queries"].items():
                if name in error.queries and name not in self._failed:
                    self._failed.add(name)
                    reason = str(query["error"]).removesuffix(f", in query `{name}`")
                    note(f"Query `{name}` stopped: {reason}")
