"""Many joins of two streams: what is asked, what the answers are, and what a user would take instead.

A pair counts for a query when keys are equal, |ts - ts| is less than its window and the value of a qualifies.
All the others here make one join and share it among the queries by hand; each has several formulations.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bare import BareJoin
from .drive import Cuts
from .outcome import Outcome
from .peers import PolarsLoop
from .race import Contestant
from .streams import Stream

BUCKETS = 1 << 15  # of the bare loop
KEY_ROOM = 1 << 20  # buckets of time per key when both go into one number

Forms = dict[str, Callable[[], int]]


@dataclass(frozen=True, slots=True)
class Ask:
    """A query: pairs of equal keys less than `window_us` apart, a.value above `above` or up to `upto` too.

    by_rows: the window is the last rows of each stream, as many as there are milliseconds in it.
    """

    window_us: int
    above: float | None = None  # with `upto`, this value itself is meant too
    upto: float | None = None
    by_rows: bool = False

    @property
    def window_rows(self) -> int:
        return max(1, self.window_us // 1_000)

    @property
    def window(self) -> str:
        """In SQL."""
        return f"[ROWS {self.window_rows}]" if self.by_rows else f"[RANGE {self.window_us} MICROSECONDS]"

    @property
    def condition(self) -> str:
        """On a.value, in SQL; empty: none."""
        if self.above is None:
            return ""
        if self.upto is None:
            return f"a.value > {self.above!r}"
        return f"a.value BETWEEN {self.above!r} AND {self.upto!r}"

    @property
    def sql(self) -> str:
        where = f" WHERE {self.condition}" if self.condition else ""
        return f"SELECT a.key, b.value FROM a {self.window} JOIN b {self.window} ON a.key = b.key{where}"

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest value of a that qualifies."""
        if self.above is None:
            return -math.inf, math.inf
        if self.upto is None:
            return math.nextafter(self.above, math.inf), math.inf
        return self.above, self.upto


def even_windows(number: int, largest_us: int) -> list[Ask]:
    """Windows W*i/N, all different."""
    return [Ask(largest_us * place // number) for place in range(1, number + 1)]


# -- answers ------------------------------------------------------------------------------------------


class Tally:
    """Counts per query, each list of them known by one number, which is what races compare."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, ...]] = {}

    def note(self, counts: Sequence[int] | NDArray) -> int:
        array = np.asarray(counts, np.int64)
        number = int.from_bytes(hashlib.blake2b(array.tobytes(), digest_size=7).digest())
        self._counts[number] = tuple(array.tolist())
        return number

    def compare(self, outcome: Outcome, what: str, answers: dict[str, set[int]]) -> None:
        """Note a disagreement at the first query that not everyone answered alike."""
        lists = [self._counts[number] for numbers in answers.values() for number in numbers]
        for place, counts in enumerate(zip(*lists, strict=True)):
            if len(set(counts)) > 1:
                found = {name: {self._counts[number][place] for number in answers[name]} for name in answers}
                outcome.compare(f"{what}, query {place + 1} of {len(lists[0])}", found)
                return


def expected_counts(asks: Sequence[Ask], a: Stream, b: Stream, since: int = 0) -> NDArray:
    """What each query counts, by the bare loop: the pairs whose later row is not before `since` (ts)."""
    size_us = max(reach_us(ask, a, b) for ask in asks)
    bare = BareJoin(a, b, size_us, BUCKETS, 0)
    bare.reset()
    rows_a, rows_b = BareJoin(a, b, size_us, BUCKETS, bare.count()).pairs()
    new = np.maximum(a.ts[rows_a], b.ts[rows_b]) >= since
    rows_a, rows_b = rows_a[new], rows_b[new]
    rows_a, rows_b = (rows[np.argsort(a.value[rows_a], kind="stable")] for rows in (rows_a, rows_b))
    values, ages = a.value[rows_a], np.abs(a.ts[rows_a] - b.ts[rows_b])
    later = np.maximum(a.ts[rows_a], b.ts[rows_b])
    rows_after = np.maximum(*(
        np.searchsorted(stream.ts, later, side="right") - 1 - rows
        for stream, rows in ((a, rows_a), (b, rows_b))
    ))  # fmt: skip
    counts = np.zeros(len(asks), np.int64)
    for by_rows, age in ((False, ages), (True, rows_after)):
        ordered = np.sort(age)
        for place in (place for place, ask in enumerate(asks) if ask.by_rows == by_rows):
            ask = asks[place]
            window = ask.window_rows if by_rows else ask.window_us
            begin, end = (
                np.searchsorted(values, ask.bounds[0]),
                np.searchsorted(values, ask.bounds[1], "right"),
            )
            if begin == 0 and end == len(values):
                counts[place] = np.searchsorted(ordered, window)
            else:
                counts[place] = np.count_nonzero(age[begin:end] < window)
    return counts


def reach_us(ask: Ask, a: Stream, b: Stream) -> int:
    """Rows that are as far apart are not together in a query's windows."""
    if not ask.by_rows:
        return ask.window_us
    end = max(int(stream.ts[-1]) for stream in (a, b) if len(stream)) + 1 if len(a) or len(b) else 0
    reach = 1
    for stream in (a, b):
        leaves = np.append(stream.ts[ask.window_rows :], [end] * min(len(stream), ask.window_rows))
        reach = max(reach, int((leaves - stream.ts).max(initial=0)) + 1)
    return reach


# -- other systems ------------------------------------------------------------------------------------


def form_runners(forms: Forms) -> list[Contestant]:
    return [Contestant(form, lambda _, work=work: work()) for form, work in forms.items()]  # type: ignore[misc]


class DuckDbShared:
    """DuckDB on one thread over whole tables; queries without a condition and with one and the same."""

    def __init__(self, a: Stream, b: Stream, asks: Sequence[Ask], tally: Tally) -> None:
        import duckdb
        import pyarrow as pa

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        for name, stream in (("a", a), ("b", b)):
            columns = {"ts": stream.ts, "key": stream.key, "value": stream.value}
            self._connection.register("arriving", pa.table(columns))
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
            self._connection.unregister("arriving")
        self._asks = list(asks)
        self._tally = tally
        conditions = {ask.condition for ask in asks if ask.condition}
        assert len(conditions) == 1, "one selection, which some of the queries have"
        self._selection = conditions.pop()

    def forms(self) -> Forms:
        """Ways that make every pair, by name, the plainest first. Buckets are parts of a join's window."""
        forms: Forms = {
            "DuckDB, a join per query, plain": lambda: self._each(0),
            "DuckDB, one join, plain": lambda: self._by_parts(0, [("", self._asks)]),
        }
        for parts, buckets in ((1, "buckets of a window"), (4, "buckets of 1/4 window")):
            for name, form in (
                ("a join per query", lambda parts=parts: self._each(parts)),
                ("one join", lambda parts=parts: self._by_parts(parts, [("", self._asks)])),
                ("rows of a apart by selection", lambda parts=parts: self._by_selection(parts)),
            ):
                forms[f"DuckDB, {name}, {buckets}"] = form
        return forms

    def by_rank(self) -> int:
        """No pair is made: for each row of a, how many rows of b are near, from their order in time."""
        return self._tally.note([self._count_by_rank(ask) for ask in self._asks])

    def _each(self, parts: int) -> int:
        return self._tally.note([self._join(parts, ask.condition, [ask])[0] for ask in self._asks])

    def _by_selection(self, parts: int) -> int:
        """What qualifies meets the largest window, the rest only the windows of those who take all."""
        open_to_all = [ask for ask in self._asks if not ask.condition]
        return self._by_parts(
            parts, [(self._selection, self._asks), (f"NOT ({self._selection})", open_to_all)]
        )

    def _by_parts(self, parts: int, groups: list[tuple[str, list[Ask]]]) -> int:
        totals = dict.fromkeys(self._asks, 0)
        for condition, asks in groups:
            for ask, count in zip(asks, self._join(parts, condition, asks), strict=True):
                totals[ask] += count
        return self._tally.note(list(totals.values()))

    def _join(self, parts: int, condition: str, asks: list[Ask]) -> list[int]:
        """One join over the largest window of these, of which each takes its share. parts: 0, no buckets."""
        size = max(ask.window_us for ask in asks)
        where = f"WHERE {condition}" if condition else ""
        if parts:
            width = size // parts
            reach = f"range((a.ts - {size - 1}) // {width}, (a.ts + {size - 1}) // {width} + 1)"
            left = f"SELECT key * {KEY_ROOM} + unnest({reach}) AS slot, ts, value FROM a {where}"
            right = f"SELECT key * {KEY_ROOM} + ts // {width} AS slot, ts FROM b"
        else:
            left, right = f"SELECT key AS slot, ts, value FROM a {where}", "SELECT key AS slot, ts FROM b"
        counts = []
        for ask in asks:
            tests = [f"abs(a.ts - b.ts) < {ask.window_us}"] if ask.window_us < size else []
            tests += [ask.condition] if ask.condition not in ("", condition) else []
            counts.append("count(*)" + (f" FILTER (WHERE {' AND '.join(tests)})" if tests else ""))
        near = f"a.ts - b.ts < {size} AND b.ts - a.ts < {size}"
        return self._row(
            f"SELECT {', '.join(counts)} FROM ({left}) a JOIN ({right}) b ON a.slot = b.slot AND {near}"
        )

    def _count_by_rank(self, ask: Ask) -> int:
        where = f"WHERE {ask.condition}" if ask.condition else ""
        reach = f"RANGE BETWEEN {ask.window_us - 1} PRECEDING AND {ask.window_us - 1} FOLLOWING"
        (count,) = self._row(
            "SELECT coalesce(sum(near), 0) FROM (SELECT of_a, count(*) FILTER (WHERE NOT of_a) "
            f"OVER (PARTITION BY key ORDER BY ts {reach}) AS near FROM "
            f"(SELECT true AS of_a, key, ts FROM a {where} UNION ALL SELECT false, key, ts FROM b)) "
            "WHERE of_a"
        )
        return count

    def _row(self, sql: str) -> list[int]:
        row = self._connection.execute(sql).fetchone()
        assert row is not None, "an aggregate without groups gives a row"
        return [int(value) for value in row]


class PolarsShared(PolarsLoop):
    """Polars over micro-batches: one join over the largest window, then a look at the pairs' ages."""

    def __init__(
        self, a: Stream, b: Stream, cuts: Cuts, step_us: int, asks: Sequence[Ask], tally: Tally
    ) -> None:
        super().__init__(a, b, cuts, step_us, max(ask.window_us for ask in asks))
        assert not any(ask.condition for ask in asks), "windows only"
        self._windows = [ask.window_us for ask in asks]
        self._tally = tally
        self._age = (self._pl.col("ts") - self._pl.col("ts_right")).abs().alias("age")

    def filter_forms(self) -> Forms:
        """A filter per query."""
        return {
            "eager filters": lambda: self._share(self._filter_each),
            "lazy filters, collected together": lambda: self._share(self._filter_lazily),
        }

    def sum_forms(self) -> Forms:
        """A comparison per query, summed, all in one select: nothing is copied."""
        return {"sums in one select": lambda: self._share(self._sum_each)}

    def order_forms(self) -> Forms:
        """The ages put in order or into cells once, for all queries."""
        return {
            "ages sorted, windows looked up": lambda: self._share(self._look_up),
            "histogram of the ages": lambda: self._share(self._histogram),
        }

    def _share(self, counts_of: Callable[[Any], Sequence[int] | NDArray]) -> int:
        totals = np.zeros(len(self._windows), np.int64)

        def count(new_a: Any, all_b: Any, state_a: Any, new_b: Any) -> int:
            pairs = (new_a.join(all_b, on="key"), state_a.join(new_b, on="key"))
            totals[:] += counts_of(self._pl.concat([found.select(self._age) for found in pairs]))
            return 0

        self._run(count, self._drop_by_slice)
        return self._tally.note(totals)

    def _filter_each(self, ages: Any) -> list[int]:
        age = self._pl.col("age")
        return [ages.filter(age < window).height for window in self._windows]

    def _sum_each(self, ages: Any) -> tuple[int, ...]:
        age = self._pl.col("age")
        sums = [(age < window).sum().alias(str(window)) for window in self._windows]
        return tuple(ages.select(sums).row(0))

    def _filter_lazily(self, ages: Any) -> list[int]:
        pl, lazy = self._pl, ages.lazy()
        plans = [lazy.filter(pl.col("age") < window).select(pl.len()) for window in self._windows]
        return [int(frame.item()) for frame in pl.collect_all(plans)]

    def _look_up(self, ages: Any) -> NDArray:
        windows = self._pl.Series(self._windows)
        return np.asarray(ages["age"].sort().search_sorted(windows, side="left"))

    def _histogram(self, ages: Any) -> NDArray:
        """Cells end with their upper edge, and ages are whole: one less than the window still counts."""
        edges = [-1, *(window - 1 for window in self._windows)]
        cells = ages["age"].hist(edges, include_breakpoint=False)
        return np.cumsum(cells["count"].to_numpy().astype(np.int64))
