"""What a user would take instead for one join: DuckDB over whole tables, Polars in a loop of micro-batches.

A pair counts when keys are equal and |ts - ts| < size. Each gets its data in its own form beforehand, only
the columns it needs, and several formulations of the query, of which the fastest counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .drive import Cuts
from .streams import Stream

KEY_ROOM = 1 << 20  # buckets of time per key when both go into one number


class DuckDb:
    """DuckDB on one thread, tables in memory."""

    def __init__(self, a: Stream, b: Stream, size_us: int) -> None:
        import duckdb
        import pyarrow as pa

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        for name, stream in (("a", a), ("b", b)):
            self._connection.register("arriving", pa.table({"ts": stream.ts, "key": stream.key}))
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
            self._connection.unregister("arriving")
        self._size = size_us
        self._near = f"a.ts - b.ts < {size_us} AND b.ts - a.ts < {size_us}"

    def plain(self) -> int:
        """The condition as one would write it."""
        return self._count(f"SELECT count(*) FROM a JOIN b ON a.key = b.key AND {self._near}")

    def tuned(self) -> dict[str, Callable[[], int]]:
        """A bucket of time in the hash key, by name of the formulation."""
        forms: dict[str, Callable[[], int]] = {"3 buckets": self._three_buckets}
        for widths in (2, 3, 4):
            forms[f"1-2 buckets of {widths} windows"] = lambda widths=widths: self._two_buckets(widths)  # type: ignore[misc]
        return forms

    def _three_buckets(self) -> int:
        """Buckets one window wide: a row of a looks into its own and both neighbours."""
        size = self._size
        copies = " UNION ALL ".join(
            f"SELECT key, ts, ts // {size} + {shift} AS bucket FROM a" for shift in (-1, 0, 1)
        )
        return self._count(
            f"SELECT count(*) FROM ({copies}) a JOIN (SELECT key, ts, ts // {size} AS bucket FROM b) b "
            f"ON a.key = b.key AND a.bucket = b.bucket AND {self._near}"
        )

    def _two_buckets(self, widths: int) -> int:
        """Wider buckets, of which a row reaches one or two; key and bucket in one number."""
        width = widths * self._size
        low, high = f"(ts - {self._size - 1}) // {width}", f"(ts + {self._size - 1}) // {width}"
        return self._count(
            f"SELECT count(*) FROM (SELECT key * {KEY_ROOM} + ts // {width} AS slot, ts FROM b) b "
            f"JOIN (SELECT key * {KEY_ROOM} + {low} AS slot, ts FROM a UNION ALL "
            f"SELECT key * {KEY_ROOM} + {high}, ts FROM a WHERE {low} <> {high}) a "
            f"ON a.slot = b.slot AND {self._near}"
        )

    def _count(self, sql: str) -> int:
        row = self._connection.execute(sql).fetchone()
        assert row is not None, "count(*) gives a row"
        return int(row[0])


class PolarsLoop:
    """Polars over micro-batches: state in two DataFrames, each batch joined with the other side's state."""

    def __init__(self, a: Stream, b: Stream, cuts: Cuts, step_us: int, size_us: int) -> None:
        import polars

        self._pl = polars
        frames = [polars.DataFrame({"ts": stream.ts, "key": stream.key}) for stream in (a, b)]
        self._batches = [(frames[0].slice(i, j - i), frames[1].slice(k, m - k)) for (i, j), (k, m) in cuts]
        self._step = step_us
        self._size = size_us
        self._near = (polars.col("ts") - polars.col("ts_right")).abs() < size_us

    @property
    def threads(self) -> int:
        return int(self._pl.thread_pool_size())

    def forms(self) -> dict[str, Callable[[], int]]:
        """Ways to write the loop, by name."""
        return {
            "eager, state filtered": lambda: self._run(self._count_eager, self._drop_by_filter),
            "eager, state sliced": lambda: self._run(self._count_eager, self._drop_by_slice),
            "lazy, state sliced": lambda: self._run(self._count_lazy, self._drop_by_slice),
        }

    def _run(self, count: Callable[[Any, Any, Any, Any], int], drop: Callable[[Any, int], Any]) -> int:
        concat = self._pl.concat
        state_a, state_b = (batch.head(0) for batch in self._batches[0])
        found = 0
        for number, (new_a, new_b) in enumerate(self._batches, start=1):
            all_b = concat([state_b, new_b], rechunk=True)
            found += count(new_a, all_b, state_a, new_b)
            oldest = number * self._step - self._size
            state_a = drop(concat([state_a, new_a], rechunk=True), oldest)
            state_b = drop(all_b, oldest)
        return found

    def _count_eager(self, new_a: Any, all_b: Any, state_a: Any, new_b: Any) -> int:
        by_a = new_a.join(all_b, on="key").filter(self._near).height
        return int(by_a + state_a.join(new_b, on="key").filter(self._near).height)

    def _count_lazy(self, new_a: Any, all_b: Any, state_a: Any, new_b: Any) -> int:
        plans = [
            left.lazy().join(right.lazy(), on="key").filter(self._near).select(self._pl.len())
            for left, right in ((new_a, all_b), (state_a, new_b))
        ]
        return sum(int(frame.item()) for frame in self._pl.collect_all(plans))

    def _drop_by_filter(self, state: Any, oldest: int) -> Any:
        return state.filter(self._pl.col("ts") > oldest)

    def _drop_by_slice(self, state: Any, oldest: int) -> Any:
        return state.slice(int(state["ts"].search_sorted(oldest, side="right")))
