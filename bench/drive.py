"""The engine as a user drives it: SQL, pushes of Arrow, results as Arrow or counted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.api import Engine, Query
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.sharing.shared_join import SharedJoin

from .race import Contestant

Cuts = list[tuple[tuple[int, int], tuple[int, int]]]  # [start, stop) of a and of b, pushed in turn

CREATE = """
CREATE STREAM a (ts TIMESTAMP, key BIGINT, value DOUBLE);
CREATE STREAM b (ts TIMESTAMP, key BIGINT, value DOUBLE);
"""


@dataclass(frozen=True, slots=True)
class Feed:
    """What is pushed: two tables, cut into slices beforehand."""

    slices: list[tuple[pa.Table, pa.Table]]

    @staticmethod
    def of(a: pa.Table, b: pa.Table, cuts: Cuts) -> Feed:
        return Feed(
            [
                (a.slice(a_start, a_stop - a_start), b.slice(b_start, b_stop - b_start))
                for (a_start, a_stop), (b_start, b_stop) in cuts
            ]
        )


def start(sql: str, counting: bool, index: str | tuple[str, str] = "auto") -> tuple[Engine, Query]:
    """An engine with one query over the streams a and b."""
    engine = Engine(index=index)
    engine.execute(CREATE)
    return engine, engine.query(sql, name="bench", count_only=counting)


def push_all(engine: Engine, query: Query, feed: Feed, counting: bool) -> int:
    """Push everything, take results after each round; how many there were."""
    rows = 0
    for a, b in feed.slices:
        engine.push("a", a)
        engine.push("b", b)
        if not counting:
            rows += query.results().num_rows
    engine.close()
    return query.count if counting else rows + query.results().num_rows


def contestant(
    name: str,
    sql: str,
    feed: Feed,
    counting: bool,
    index: str | tuple[str, str] = "auto",
    filling: Feed | None = None,
) -> Contestant:
    """The engine in a race; starting it is not timed, nor is pushing `filling`."""

    def prepare() -> tuple[Engine, Query]:
        engine, query = start(sql, counting, index)
        for a, b in filling.slices if filling is not None else ():
            engine.push("a", a)
            engine.push("b", b)
        return engine, query

    def run(started: tuple[Engine, Query]) -> int:
        return push_all(*started, feed, counting)

    return Contestant(name, run, prepare)


def running_join(query: Query) -> WindowJoin:
    """The join of a query that has one."""
    ((_, group, _),) = query._pipeline.reads(SharedJoin)
    return group.joins[0]
