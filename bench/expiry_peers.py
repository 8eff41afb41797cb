"""What one would take for a sliding GROUP BY instead: a query over the window's rows, again every second.

Each gives one number made of all rows of all answers (see `weigh`), so that they can be held against each
other and against what the engine's changes add up to at the same instants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .streams import Stream


def weigh(key: Any, count: Any, most: Any) -> Any:
    """What a row of the answer counts for; whole numbers, so that sums are exact."""
    return (key + 1) * count + (2 * key + 3) * most


def weigh_changes(instants: NDArray, ts: NDArray, sign: NDArray, weights: NDArray) -> int:
    """The weights of all answers at these instants, from the changes: what entered less what left."""
    total = np.concatenate([[0], np.cumsum(sign.astype(np.int64) * weights.astype(np.int64))])
    return int(total[np.searchsorted(ts, instants, side="right")].sum())


class WindowBounds:
    """Which rows are in the window at each instant: [start, stop)."""

    def __init__(self, stream: Stream, size_us: int, step_us: int) -> None:
        self.instants = np.arange(step_us, int(stream.ts[-1]) + 1, step_us)
        start = np.searchsorted(stream.ts, self.instants - size_us, side="right")
        stop = np.searchsorted(stream.ts, self.instants, side="right")
        self.rows = list(zip(start.tolist(), stop.tolist(), strict=True))


class DuckDbAgain:
    """DuckDB on one thread; rows are in it, or in Arrow, before the clock starts."""

    def __init__(self, stream: Stream, size_us: int, step_us: int) -> None:
        import duckdb

        self._bounds = WindowBounds(stream, size_us, step_us)
        self._size = size_us
        self._table = stream.table.set_column(0, "ts", [stream.ts])
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.register("pushed", self._table)
        self._connection.execute("CREATE TABLE a AS SELECT * FROM pushed")

    def forms(self) -> dict[str, Callable[[], int]]:
        """Ways to ask, by name."""
        return {"a table, the window by ts": self._by_time, "a slice of an Arrow table": self._by_slice}

    def _by_time(self) -> int:
        again = self._again("a WHERE ts > $1 AND ts <= $2")
        return sum(again([now - self._size, now]) for now in self._bounds.instants.tolist())

    def _by_slice(self) -> int:
        again = self._again("shown")
        total = 0
        for start, stop in self._bounds.rows:
            self._connection.register("shown", self._table.slice(start, stop - start))
            total += again([])
        return total

    def _again(self, rows: str) -> Callable[[list[int]], int]:
        weight = weigh_text("key", "rows", "most")
        answer = f"SELECT key, count(*) AS rows, max(value) AS most FROM {rows} GROUP BY key"
        sql = f"SELECT sum({weight}) FROM ({answer})"

        def ask(given: list[int]) -> int:
            ((total,),) = self._connection.execute(sql, given).fetchall()
            return int(total or 0)

        return ask


def weigh_text(key: str, count: str, most: str) -> str:
    """`weigh`, in SQL."""
    return f"({key} + 1) * {count} + (2 * {key} + 3) * {most}"


class PolarsAgain:
    """Polars, with as many threads as it takes."""

    def __init__(self, stream: Stream, size_us: int, step_us: int) -> None:
        import polars

        self._pl = polars
        self._bounds = WindowBounds(stream, size_us, step_us)
        self._frame = polars.DataFrame({"ts": stream.ts, "key": stream.key, "value": stream.value})
        col = polars.col
        self._aggregates = [polars.len().cast(polars.Int64).alias("rows"), col("value").max().alias("most")]
        self._weight = weigh(col("key"), col("rows"), col("most")).sum()

    @property
    def threads(self) -> int:
        return int(self._pl.thread_pool_size())

    def forms(self) -> dict[str, Callable[[], int]]:
        """Ways to ask, by name."""
        return {"eager": self._eager, "lazy": self._lazy}

    def _eager(self) -> int:
        return sum(
            int(self._slice(rows).group_by("key").agg(self._aggregates).select(self._weight).item() or 0)
            for rows in self._bounds.rows
        )

    def _lazy(self) -> int:
        return sum(
            int(
                self._slice(rows).lazy().group_by("key").agg(self._aggregates).select(self._weight)
                .collect().item() or 0
            )
            for rows in self._bounds.rows
        )  # fmt: skip

    def _slice(self, rows: tuple[int, int]) -> Any:
        return self._frame.slice(rows[0], rows[1] - rows[0])
