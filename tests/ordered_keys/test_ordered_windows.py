"""Streams with a window beside streams without, all joined on columns that grow, against all there could be.

a             k   1   2       3          b [RANGE 5], at 4: a 1 of a at 9 does not find it
b [RANGE 5]   k     1   3   2
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordered_streams import Arrival, draw_arrivals, full_join
from test_ordered_join import NAMES, cuts, declared, engine_of, join_of, push, rows_of

from penstock import Engine, QueryError
from penstock.engine.flow.scheduler import RoundRobin, Shuffled


def in_windows(arrivals: list[Arrival], sizes: list[int | None]) -> list[tuple[int, ...]]:
    """Of the full join, what has all its rows in their windows when the last of them comes."""
    ts = {(one.stream, one.row): one.ts for one in arrivals}
    found = []
    for rows in full_join(arrivals, len(sizes)):
        times = [ts[pair] for pair in enumerate(rows)]
        if all(size is None or at + size > max(times) for at, size in zip(times, sizes, strict=True)):
            found.append(rows)
    return found


@pytest.mark.parametrize("evict", ["key", "fifo"])
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40)
def test_whichever_lets_a_row_go_first(evict: str, seed: int) -> None:
    """Ties of time, any cuts, restored in between: what is given, and that rows are held by both rules."""
    dice = random.Random(seed)
    streams = dice.randint(2, 4)
    coarse = dice.choice((1, 1, 4))
    arrivals = [
        Arrival(one.stream, one.key, one.row, one.ts // coarse)
        for one in draw_arrivals(dice, streams, dice.choice((20, 60)))
    ]
    sizes = [dice.choice((None, 1, 5, 20, 60)) for _ in range(streams)]
    sizes[dice.randrange(streams)] = None
    engine = engine_of(
        [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, streams)],
        evict=evict,
        scheduler=Shuffled(seed) if dice.random() < 0.5 else RoundRobin(),
    )
    scans = [
        name if size is None else f"{name} [RANGE {size} MICROSECONDS]"
        for name, size in zip(NAMES, sizes, strict=False)
    ]
    joined = scans[0] + "".join(f" JOIN {one} USING (k)" for one in scans[1:])
    query = engine.query(
        f"SELECT k, {', '.join(f'{one}.r AS r{one}' for one in NAMES[:streams])} FROM {joined}"
    )
    name, found = query.name, []
    parts = cuts(dice, arrivals)
    restored_at = dice.randrange(len(parts))
    for at, part in enumerate(parts):
        push(engine, part)
        engine._runtime._check()
        for side, size in zip(join_of(engine).sides, sizes, strict=True):
            times = side.shelf.store.ts.live
            assert size is None or bool((times + size > part[-1].ts).all()), (
                "rows that have left their window"
            )
        if at == restored_at:
            found += rows_of(engine.queries[name])
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
    engine.close()
    found += rows_of(engine.queries[name])
    assert sorted(found) == sorted(in_windows(arrivals, sizes))
    assert join_of(engine).missed.rows == 0 and engine.queries[name].accuracy == 1.0


def test_a_silent_stream_holds_no_rows_of_windows() -> None:
    """Without its window b would wait for a; time goes on by `advance`."""
    engine = engine_of(["ORDERED WITHIN 0 ROWS", "ORDERED WITHIN 0 ROWS"])
    engine.query("SELECT k FROM a JOIN b [RANGE 5 MICROSECONDS] USING (k)")
    push(engine, [Arrival(1, key, key, 10 + key) for key in range(20)])
    assert [len(side) for side in join_of(engine).sides] == [0, 5]
    engine.advance(100)
    assert [len(side) for side in join_of(engine).sides] == [0, 0]
    assert "b.k: ORDERED WITHIN 0 ROWS, declared, also [RANGE 5 MICROSECONDS]" in engine.explain()


def test_an_unbounded_window_is_none() -> None:
    engine = engine_of(["ORDERED", "ORDERED"])
    engine.query("SELECT k FROM a JOIN b [RANGE UNBOUNDED] USING (k)")
    assert "OrderedJoin" in engine.explain()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT a.k FROM a JOIN b [ROWS 5] USING (k)", "A stream with a ROWS window beside one without"),
        (
            "SELECT a.k FROM a JOIN c [RANGE 5 SECONDS] USING (k)",
            "Of streams with and without windows all need a column that is declared ORDERED",
        ),
        ("SELECT a.k FROM a JOIN b [RANGE 5 SECONDS] USING (r)", "Expected a window on `a`, found none"),
        ("SELECT a.k FROM a LEFT JOIN b [RANGE 5 SECONDS] USING (k)", "A stream with a window beside one"),
    ],
)
def test_what_is_refused_of_windows(sql: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine_of(["ORDERED", "ORDERED", ""]).query(sql)
    assert message in str(caught.value) and "line 1, column" in str(caught.value)
