"""Windows given whole at each boundary, against the rows that a list says are in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.flow.queue import Queue
from penstock.engine.hopping.whole_window import WholeWindow
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window

TYPES = (SqlType.BIGINT, SqlType.BIGINT)
HOP = 5
Row = tuple[int, int]
"""Time and key; a second column says which row it is."""


def window_at(rows: list[Row], boundary: int, kind: str, size: int, by_key: bool) -> list[int]:
    """The numbers of the rows in the window."""
    come = [number for number, (ts, _) in enumerate(rows) if ts <= boundary]
    if kind == "range":
        return [number for number in come if rows[number][0] > boundary - size]
    if not by_key:
        return come[-size:]
    last = {key: [number for number in come if rows[number][1] == key][-size:] for _, key in rows}
    return [number for number in come if number in last[rows[number][1]]]


@pytest.mark.parametrize(("kind", "by_key"), [("range", False), ("rows", False), ("rows", True)])
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=25).map(sorted),
    st.integers(1, 12),
    st.lists(st.integers(1, 6), min_size=1, max_size=25),
)
def test_every_boundary_is_right(
    kind: str, by_key: bool, rows: list[Row], size: int, pieces: list[int]
) -> None:
    queue, out, at = Queue(), Queue(), 0
    operator = WholeWindow(
        Window(kind, size), (0,) if by_key else (), Hops(HOP, 0), (queue,), TYPES, "window"
    )  # type: ignore[arg-type]
    operator.output.queues.append(out)
    while at < len(rows):
        piece = rows[at : at + pieces[at % len(pieces)]]
        keys, numbers = pa.array([key for _, key in piece]), pa.array(range(at, at + len(piece)))
        at += len(piece)
        queue.put(Batch(np.array([ts for ts, _ in piece]), [keys, numbers]))
        queue.promise(piece[-1][0])
        while operator.step(3):
            operator._check()
        assert operator.state_rows <= len(rows)
    queue.promise(40)
    while operator.step(3):
        operator._check()
    found: dict[int, list[int]] = {boundary: [] for boundary in range(0, 40, HOP)}
    for batch in out.batches:
        found.setdefault(int(batch.ts[0]), []).extend(batch.column(1).to_pylist())
    for boundary in range(0, 40, HOP):
        assert sorted(found[boundary]) == window_at(rows, boundary, kind, size, by_key), boundary
