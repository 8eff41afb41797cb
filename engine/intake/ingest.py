"""Where a stream enters: checked, put into time order, cut into batches.

In:   tables as pushed.
Out:  batches in time order, and how far time has come.
Kept: rows newer than the watermark, while the stream's slack says older ones may still come; of columns that
      are declared ORDERED, how far they have come (key_frontier.py).

The watermark is the latest ts seen less the slack. A row is late when its ts is below the watermark that
the rows before it have made: a property of the stream, not of how it was cut. So is whether a row is too far
ahead (ahead.py). Both are refused with the whole push, or counted and dropped, as the stream's queries say. A
push is either accepted or changes nothing, but that a row ahead has come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING, Outlet
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import NO_ROWS, Batch, concatenate
from penstock.engine.rows.errors import AheadError, DataError, LateError
from penstock.engine.rows.store import fixed_values, valid_bytes
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import MAX_TS
from penstock.engine.rows.write_times import write_duration, write_span, write_time

from .ahead import Ahead, Verdict
from .ahead_rule import AheadRule
from .declared import Declared
from .disorder import disorder, refuse_nan
from .key_frontier import Followed, KeyFrontier
from .order_rule import OrderRule
from .reorder import Reorder
from .stream_clock import Progress
from .time_units import TimeUnit

BATCH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class Pushed:
    """Rows that are about to be taken into a stream; places: where they stand in the push, None: all do."""

    stream: str
    ts: NDArray
    places: NDArray | None = None


Allow: TypeAlias = Callable[[Pushed, int], None]
"""Is told of rows that are about to be taken in, and of the watermark after them."""


@dataclass(slots=True)
class StreamSchema:
    """A stream as declared."""

    name: str
    columns: tuple[str, ...]
    types: tuple[SqlType, ...]
    time_column: int
    slack_us: int
    ahead: AheadRule | None = None
    idle_us: int | None = None
    units: tuple[TimeUnit | None, ...] = ()
    ordered: tuple[tuple[int, OrderRule], ...] = ()
    """Columns that grow, and how far out of order their keys may come."""

    def _check_restored(self) -> None:
        expect(len(self.columns) == len(self.types), "a type for each column")


def extremes(ts: NDArray, in_order: bool) -> tuple[int, int]:
    """Earliest and latest of some times."""
    return (int(ts[0]), int(ts[-1])) if in_order else (int(ts.min()), int(ts.max()))


class Ingest:
    """One stream's entry."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self.output = Outlet()
        self.late: Literal["drop", "error"] = "error"
        self.rows_in = 0
        self.rows_late = 0
        self.first_ts: int | None = None
        self.last_ts = BEGINNING
        self.watermark = BEGINNING
        self.idled_to: int | None = None
        """How far time has passed here because other streams went on."""
        self._held = Reorder()
        self._declared = Declared(schema.name, schema.columns, schema.types, schema.units)
        self.progress = Progress(self.output)
        self.ahead = None if schema.ahead is None else Ahead(schema.ahead)
        self.frontiers = tuple(
            KeyFrontier(
                place,
                schema.columns[place],
                schema.types[place],
                rule,
                {schema.columns[n]: schema.types[n] for n in rule.per},
            )
            for place, rule in schema.ordered
        )

    def judge_late(self, late: Literal["drop", "error"]) -> None:
        """What becomes of late rows from now on."""
        self.late = late

    def push(self, table: pa.Table, allow: Allow | None = None) -> None:
        """Take rows in; raises DataError, and changes nothing, if they are not what was declared.

        allow: is told which rows will be taken and how far time will have come; it may raise, too.
        """
        # 1. check
        table = self._declared.take(table)
        parts = table.to_batches(max_chunksize=BATCH_ROWS)
        ts = self._times(table)
        if not len(ts):
            return
        in_order = bool((ts[1:] >= ts[:-1]).all())
        self._check_range(ts, in_order)
        verdict = None if self.ahead is None else self._judge(self.ahead, ts, in_order)
        late = self._late_rows(ts, in_order) if verdict is None else verdict.late
        if len(late) and self.late == "error":
            raise self._lateness(ts, late)
        left_out = late if verdict is None else np.concatenate([verdict.late, verdict.ahead])
        kept = None
        come = len(ts)
        if len(left_out):
            kept = np.ones(come, bool)
            kept[left_out] = False
            ts = ts[kept]
        earliest, latest = extremes(ts, in_order) if len(ts) else (0, BEGINNING)
        watermark = max(self.watermark, max(self.last_ts, latest) - self.schema.slack_us)
        followed = self._follow(table, kept)
        if allow is not None and len(ts):
            allow(Pushed(self.schema.name, ts, None if kept is None else np.flatnonzero(kept)), watermark)
        # 2. take in
        self._declared.accept()
        self.rows_in += come
        self.rows_late += len(late)
        if self.ahead is not None and verdict is not None:
            self.ahead.take(verdict)
        if not len(ts):
            return
        if kept is not None:
            parts = table.filter(pa.array(kept)).to_batches(max_chunksize=BATCH_ROWS)
        self.first_ts = earliest if self.first_ts is None else min(self.first_ts, earliest)
        self.progress.begin(earliest)
        self.last_ts = max(self.last_ts, latest)
        self.watermark = watermark
        for frontier, one in zip(self.frontiers, followed, strict=True):
            frontier.take(one)
            frontier.note_rate(len(ts), earliest, latest)
        # 3. pass on what cannot be overtaken any more
        self._flow(ts, parts, followed)

    def advance(self, ts: int) -> None:
        """Time has come to `ts`: nothing below it follows."""
        if ts > self.watermark:
            self.progress.begin(ts)
            self.watermark = ts
        self._release()

    def be_idle(self, ts: int) -> bool:
        """Others went on: time passes here to `ts`, unless a later row has come; whether it did."""
        if ts <= self.watermark or ts < self.last_ts:
            return False
        self.watermark = self.idled_to = ts
        self._release()
        return True

    def close(self) -> None:
        """Nothing follows: rows held back come out."""
        self.watermark = max(self.watermark, self.last_ts)
        self._release()
        self.output.close()

    @property
    def has_given(self) -> bool:
        """Whether a row has gone on, and does not wait for older ones."""
        return self.first_ts is not None and self.first_ts <= self.watermark

    @property
    def rows_held(self) -> int:
        return len(self._held)

    @property
    def held_times(self) -> list[NDArray]:
        """The times of the rows that wait for older ones."""
        return self._held.times

    @property
    def bytes_held(self) -> int:
        return self._held.bytes

    def _times(self, table: pa.Table) -> NDArray:
        """The time column as int64, without NULLs."""
        columns = table.column(self.schema.time_column).chunks
        at = 0
        for column in columns:
            if column.null_count:
                name = self.schema.columns[self.schema.time_column]
                row = at + int(np.flatnonzero(valid_bytes(column) == 0)[0])
                raise DataError(
                    f"Expected a time in column `{name}`, found NULL", source=self.schema.name, row=row + 1
                )
            at += len(column)
        if len(columns) == 1:
            return fixed_values(columns[0])
        return np.concatenate([NO_ROWS, *map(fixed_values, columns)])

    def _check_range(self, ts: NDArray, in_order: bool) -> None:
        earliest, latest = extremes(ts, in_order)
        if earliest > -MAX_TS and latest < MAX_TS:
            return
        name = self.schema.columns[self.schema.time_column]
        row = int(np.flatnonzero((ts <= -MAX_TS) | (ts >= MAX_TS))[0])
        raise DataError(
            f"Expected a time within {MAX_TS:,} microseconds of the epoch in column `{name}`, "
            f"found `{ts[row]}`",
            source=self.schema.name,
            row=row + 1,
        )

    def _judge(self, rows_ahead: Ahead, ts: NDArray, in_order: bool) -> Verdict:
        """Late rows and rows ahead; raises if one of these comes first and none may be dropped."""
        come, limit = max(self.last_ts, self.watermark), rows_ahead.rule.limit_us
        if self.first_ts is not None and extremes(ts, in_order)[1] - come <= limit:
            return rows_ahead.pass_by(self._late_rows(ts, in_order), len(ts))
        is_refusing = self.late == "error"
        latest = None if self.first_ts is None else self.last_ts
        verdict = rows_ahead.judge(ts, latest, self.watermark, self.schema.slack_us, is_refusing)
        if len(verdict.ahead) and is_refusing:
            rows_ahead.refuse(verdict)
            raise self._aheadness(ts, int(verdict.ahead[0]), limit)
        return verdict

    def _aheadness(self, ts: NDArray, row: int, limit: int) -> AheadError:
        before = int(self._watermarks(ts[: row + 1])[row])
        come = max(before, self.last_ts, int(ts[:row].max(initial=BEGINNING)))
        found = int(ts[row])
        assert self.ahead is not None, "who judges"
        return AheadError(
            f"Expected a time at most {write_duration(limit)} ahead of `{write_time(come)}`, "
            f"found `{write_time(found)}`, {write_span(found - come)} ahead",
            source=self.schema.name,
            row=row + 1,
            hint=f"{self.ahead.rule.rows} such rows in a row that agree are believed; "
            "LATE DROP drops the others",
        )

    def _late_rows(self, ts: NDArray, in_order: bool) -> NDArray:
        """Positions of rows older than the watermark as it stood when they came."""
        if in_order and ts[0] >= self.watermark:
            return NO_ROWS
        return np.flatnonzero(ts < self._watermarks(ts))

    def _watermarks(self, ts: NDArray) -> NDArray:
        """The watermark before each of the rows."""
        latest = np.maximum(np.maximum.accumulate(ts), self.last_ts)
        before = np.concatenate([[self.last_ts], latest[:-1]])
        return np.maximum(before - self.schema.slack_us, self.watermark)

    def _lateness(self, ts: NDArray, late: NDArray) -> LateError:
        row = int(late[0])
        expected, found = int(self._watermarks(ts)[row]), int(ts[row])
        name = self.schema.columns[self.schema.time_column]
        slack = f", slack {write_duration(self.schema.slack_us)}" if self.schema.slack_us else ""
        hint = f"Allow for it with WATERMARK FOR {name} AS {name} - INTERVAL ..."
        if expected == self.idled_to and self.schema.idle_us is not None:
            slack = f", as other streams went on, IDLE AFTER {write_duration(self.schema.idle_us)}"
            hint = "Allow for it with a longer IDLE AFTER"
        return LateError(
            f"Expected rows in time order (now from `{write_time(expected)}` on{slack}), found "
            f"`{write_time(found)}`, {write_span(expected - found)} behind",
            source=self.schema.name,
            row=row + 1,
            hint=f"{hint}, or drop such rows with LATE DROP",
        )

    def frontier(self, column: int) -> KeyFrontier:
        """That of a column that is declared ORDERED."""
        return next(one for one in self.frontiers if one.column == column)

    def _follow(self, table: pa.Table, kept: NDArray | None) -> list[Followed]:
        """What will be known of columns that grow; raises if a row comes later than was declared."""
        followed = []
        for frontier in self.frontiers:
            keys, *values = (
                table.column(one).combine_chunks() for one in (frontier.column, *frontier.rule.per)
            )
            refuse_nan(frontier, keys, self.schema.name)
            if kept is not None:
                keys, *values = (one.filter(pa.array(kept)) for one in (keys, *values))
            followed.append(frontier.follow(keys, values))
            broken = followed[-1].broken
            if len(broken) and self.late == "error":
                place = int(broken[0])
                row = place if kept is None else int(np.flatnonzero(kept)[place])
                per = dict(zip(frontier.per, values, strict=True))
                raise disorder(frontier, followed[-1], keys, per, place, self.schema.name, row)
        return followed

    def _flow(self, ts: NDArray, parts: list[pa.RecordBatch], followed: list[Followed]) -> None:
        batches: list[Batch] = []
        at = 0
        for part in parts:
            batches.append(Batch(ts[at : at + part.num_rows], part.columns))
            at += part.num_rows
        if not len(self._held) and self.watermark >= self.last_ts:  # in order: nothing to sort or hold
            self.progress.go_on(int(ts[0]))
            for frontier, one in zip(self.frontiers, followed, strict=True):
                frontier.pass_on(one)
            for batch in batches:
                self.output.put(batch)
            self.output.promise(self.watermark)
            return
        self._held.add(concatenate(batches))
        self._release()

    def _release(self) -> None:
        """Pass on the held rows up to the watermark."""
        rows = self._held.release(self.watermark)
        if rows is not None:
            self.progress.go_on(int(rows.ts[0]))
            for frontier in self.frontiers:
                frontier.release(rows, self._held.runs)
            for start in range(0, rows.length, BATCH_ROWS):
                self.output.put(rows.slice(start, min(start + BATCH_ROWS, rows.length)))
        self.output.promise(self.watermark)

    def _check(self) -> None:
        earliest = self._held.earliest
        assert earliest is None or earliest > self.watermark, "a row is held for no reason"
        assert self.output.punctuation <= self.watermark, "promised more than is known"
        if self.ahead is not None:
            self.ahead._check()
        for frontier in self.frontiers:
            frontier._check()
