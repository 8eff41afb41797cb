"""Times of numbered rows, against one array of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.windows import row_times
from penstock.engine.windows.row_times import RowTimes


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(0, 12)), max_size=12),
    st.integers(1, 8),
)
def test_rows_before_a_time(steps: list[tuple[list[int], int]], small: int) -> None:
    times, all_rows = RowTimes(), np.empty(0, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_times, "SMALL_ROWS", small)
        for gaps, dropped in steps:
            last = int(all_rows[-1]) if len(all_rows) else 0
            new = last + np.cumsum(gaps)
            times.append(new)
            all_rows = np.concatenate([all_rows, new])
            times.drop(times.tail + dropped)
            times._check()
            assert (times.tail, times.end) == (len(all_rows) - len(times), len(all_rows))
            for ts in range(-1, int(all_rows[-1]) + 2):
                wanted = max(times.tail, int(all_rows.searchsorted(ts, side="right")))
                assert times.until(ts) == wanted
            assert [times.at(row) for row in range(times.tail, times.end)] == all_rows[times.tail :].tolist()


def test_many_small_batches_are_few_arrays() -> None:
    times = RowTimes()
    for start in range(0, 100_000, 10):
        times.append(np.arange(start, start + 10))
    assert len(times._parts) < 60
    assert times.until(54_321) == 54_322
    times.drop(99_990)
    assert len(times._parts) == 1
