"""Which rows displace which from windows of the last rows of each partition, against a naive twin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.operators.partitions import Partitions
from penstock.engine.types import SqlType


@pytest.mark.twin("changes.displace_in_partitions")
@settings(max_examples=60)
@given(st.lists(st.sampled_from(["a", "b", None, "c"]), max_size=30), st.data())
def test_who_displaces_whom(texts: list[str | None], data: st.DataObject) -> None:
    """Row by row, as rows come and go; windows are those of instants, which are whole from some row on."""
    draw = data.draw
    found, rows, at = Partitions((0,)), list[str | None](), list[int]()
    come = 0
    while come < len(texts):
        piece = texts[come : come + draw(st.integers(1, 8))]
        come += len(piece)
        begin, now = len(rows), at[-1] + 1 if at else 0
        rows += piece
        at += [
            now := now + gap
            for gap in draw(st.lists(st.integers(0, 1), min_size=len(piece), max_size=len(piece)))
        ]
        found.extend([pa.array(piece, pa.string())], [SqlType.VARCHAR], len(piece))
        end = next((i for i in range(len(rows)) if at[i] > draw(st.integers(at[begin], at[-1]))), len(rows))
        first = draw(st.integers(0, len(rows)))
        for size in (1, 2, 5):
            later = [[j for j in range(i + 1, len(rows)) if rows[j] == rows[i]] for i in range(len(rows))]
            expected = [one[size - 1] if len(one) >= size else len(rows) for one in later]
            assert found.displacing(size).tolist() == expected
            changes = found.changes(size, np.array(at), begin, end, first)
            assert list(zip(*(one.tolist() for one in changes), strict=True)) == naive(
                rows, at, size, begin, end, first
            )
        kept = sorted(draw(st.sets(st.sampled_from(range(len(rows))))))
        found.keep(np.array(kept, np.int64))
        rows, at = [rows[i] for i in kept], [at[i] for i in kept]
        found._check(len(rows))


def naive(
    rows: list[str | None], at: list[int], size: int, begin: int, end: int, first: int
) -> list[tuple[int, int, int]]:
    """What the instants of rows [begin, end) change in windows of the last rows of each partition."""

    def window(stop: int) -> list[int]:
        last = {key: [i for i in range(stop) if rows[i] == key][-size:] for key in rows}
        return [i for i in range(first, stop) if i in last[rows[i]]]

    changes, before = [], window(begin)
    for now in sorted(set(at[begin:end])):
        held = window(next((i for i in range(end) if at[i] > now), end))
        by = {
            i: [j for j in range(i + 1, end) if rows[j] == rows[i]][size - 1] for i in before if i not in held
        }
        changes += [(now, -1, i) for i in sorted(by, key=by.__getitem__)]
        changes += [(now, 1, i) for i in held if i not in before]
        before = held
    return changes
