"""The net changes of each instant against a Counter per instant, and the kernel's twin."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes_help import row_key
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.flow.queue import Queue
from penstock.engine.kernels.rows.net import FEW, cancel_few
from penstock.engine.keys.net_changes import cancel_equal, net_changes
from penstock.engine.results.sink import Sink
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import ARROW_TYPES, SqlType

NAN = float("nan")
DOUBLES = st.sampled_from([None, NAN, 0.0, -0.0, 1.5])
TEXTS = st.sampled_from([None, "", "a", "ab", "ä"])
COLUMNS = {
    SqlType.BIGINT: st.one_of(st.none(), st.integers(0, 2)),
    SqlType.DOUBLE: DOUBLES,
    SqlType.VARCHAR: TEXTS,
    SqlType.BOOLEAN: st.one_of(st.none(), st.booleans()),
}
Row = tuple[int, int, tuple[Any, ...]]


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[SqlType], list[Row]]:
    """Types, and (ts, sign, values): small instants and some with more changes than are compared in pairs."""
    types = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    values = st.tuples(*(COLUMNS[t] for t in types))
    few = draw(st.lists(values, min_size=1, max_size=4))  # so that equal ones are frequent
    rows: list[Row] = []
    for ts in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from([0, 1, 2, 5, FEW, FEW + 1, 60]))
        seed = draw(st.integers(0, 1 << 30))
        chance = np.random.default_rng(seed)
        bias = draw(st.sampled_from([0.0, 0.5, 0.5, 0.9, 1.0]))
        for _ in range(size):
            sign = 1 if chance.random() < bias else -1
            rows.append((ts, sign, few[int(chance.integers(len(few)))]))
    return types, rows


def as_batch(types: list[SqlType], rows: list[Row]) -> Batch:
    columns = [
        pa.array([values[i] for _, _, values in rows], ARROW_TYPES[t], from_pandas=False)
        for i, t in enumerate(types)
    ]
    ts = np.array([row[0] for row in rows], np.int64)
    return Batch(ts, columns, np.array([row[1] for row in rows], np.int8))


def read(batch: Batch) -> list[Row]:
    columns = [batch.column(i).to_pylist() for i in range(batch.width)]
    values = list(zip(*columns, strict=True))
    return list(zip(batch.ts.tolist(), batch.signs.tolist(), values, strict=True))


def net_of(rows: list[Row]) -> Counter[Any]:
    """How often each row enters (or leaves, below 0) at each instant."""
    net: Counter[Any] = Counter()
    for ts, sign, values in rows:
        net[ts, row_key(values)] += sign
    return Counter({row: count for row, count in net.items() if count})


@settings(max_examples=200)
@given(changes())
def test_net_changes_against_counters(drawn: tuple[list[SqlType], list[Row]]) -> None:
    types, rows = drawn
    if not rows:
        return
    result = net_changes(as_batch(types, rows), types)
    result._check()
    came = read(result)
    assert net_of(came) == net_of(rows)
    assert len(came) == sum(abs(count) for count in net_of(rows).values()), "nothing is left that cancels"
    order = [(ts, sign) for ts, sign, _ in came]
    if len({sign for _, sign, _ in rows}) == 2:
        assert order == sorted(order), "in time order, in each instant what leaves first"


def test_net_changes_leaves_alone_what_only_enters() -> None:
    """Also several equal rows; and without signs it is not looked at."""
    batch = Batch(np.array([1, 1]), [pa.array([7, 7])])
    assert net_changes(batch, [SqlType.BIGINT]) is batch
    batch.sign = np.array([-1, -1], np.int8)
    assert net_changes(batch, [SqlType.BIGINT]) is batch


def test_rows_without_columns_are_all_equal() -> None:
    """As when only changes are counted."""
    batch = Batch(np.array([1, 1, 1, 2]), [], np.array([1, -1, 1, -1], np.int8))
    result = net_changes(batch, [])
    assert (result.ts.tolist(), result.signs.tolist()) == ([1, 2], [1, -1])


def test_ends_stay_with_their_rows() -> None:
    ets = np.array([5, 6, 7])
    batch = Batch(np.array([1, 1, 1]), [pa.array([1, 2, 1])], np.array([1, 1, -1], np.int8), ets)
    result = net_changes(batch, [SqlType.BIGINT])
    assert (result.column(0).to_pylist(), result.ends.tolist()) == ([2], [6])


KEYS = st.tuples(st.integers(0, 2), st.integers(0, 1))
PLAIN = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, -1]), KEYS), max_size=3 * FEW)


def arrays(drawn: list[Any]) -> tuple[np.ndarray, ...]:
    drawn = sorted(drawn, key=lambda one: one[0])
    return (
        np.array([one[0] for one in drawn], np.int64),
        np.array([one[1] for one in drawn], np.int8),
        np.array([one[2][0] for one in drawn], np.int64),
        np.array([one[2][1] for one in drawn], np.int64),
    )


def naive_cancel_few(ts: Any, sign: Any, a: Any, b: Any) -> tuple[list[int], list[int], bool]:
    """Each change cancels the oldest one before it, at its ts, that is its opposite and still there."""
    keep, many = [1] * len(ts), [0] * len(ts)
    instants = defaultdict(list)
    for place, now in enumerate(ts.tolist()):
        instants[now].append(place)
    for places in instants.values():
        is_mixed = len({int(sign[i]) for i in places}) == 2
        if is_mixed and len(places) > FEW:
            for i in places:
                many[i] = 1
            continue
        for at, i in enumerate(places):
            for j in places[:at]:
                if keep[j] and sign[i] == -sign[j] and (a[i], b[i]) == (a[j], b[j]):
                    keep[i] = keep[j] = 0
                    break
    return keep, many, any(many)


@pytest.mark.twin("net.cancel_few")
@given(PLAIN)
def test_cancel_few_against_its_twin(drawn: list[Any]) -> None:
    ts, sign, a, b = arrays(drawn)
    keep, many = np.ones(len(ts), np.uint8), np.zeros(len(ts), np.uint8)
    left = cancel_few(ts, sign, a, b, keep, many)
    assert (keep.tolist(), many.tolist(), bool(left)) == naive_cancel_few(ts, sign, a, b)


def naive_cancel_equal(ts: Any, sign: Any, a: Any, b: Any) -> list[int]:
    """Of equal changes at one ts, the first of the sign that there are more of, as many as there are more."""
    rows = list(zip(ts.tolist(), a.tolist(), b.tolist(), strict=True))
    net: Counter[Any] = Counter()
    for row, one in zip(rows, sign.tolist(), strict=True):
        net[row] += one
    keep = []
    for row, one in zip(rows, sign.tolist(), strict=True):
        keep.append(int(net[row] * one > 0))
        net[row] -= one * keep[-1]
    return keep


@pytest.mark.twin("net.cancel_many")
@given(PLAIN, st.booleans())
def test_cancel_equal_against_its_twin(drawn: list[Any], is_mixed: bool) -> None:
    ts, sign, a, b = arrays(drawn)
    if is_mixed:
        ts = ts[::-1].copy()  # it does not need them in order
    keep = cancel_equal(ts, sign, a, b)
    assert keep.tolist() == naive_cancel_equal(ts, sign, a, b)
    rows = [(int(t), int(s), (int(x), int(y))) for t, s, x, y in zip(ts, sign, a, b, strict=True)]
    kept = [row for row, stays in zip(rows, keep.tolist(), strict=True) if stays]
    assert net_of(kept) == net_of(rows)


def sink_of(types: list[SqlType]) -> Sink:
    columns = [pa.field(f"c{i}", ARROW_TYPES[type_]) for i, type_ in enumerate(types)]
    schema = pa.schema([pa.field("_ts", pa.timestamp("us")), pa.field("_diff", pa.int8()), *columns])
    return Sink(schema, Queue(), "sink", False, lambda error: None, True, "all", types)


@given(changes(), st.integers(0, 99))
def test_a_sink_gives_net_changes_however_they_are_cut(
    drawn: tuple[list[SqlType], list[Row]], seed: int
) -> None:
    """An instant may come in many batches, of which none leaves anything of those before."""
    types, rows = drawn
    sink, chance, at = sink_of(types), np.random.default_rng(seed), 0
    while at < len(rows):
        piece = rows[at : at + int(chance.choice([1, 2, 7]))]
        at += len(piece)
        sink.inputs[0].put(as_batch(types, piece))
        while sink.step(int(chance.choice([1, 100]))):
            pass
    sink.settle()
    table = sink.drain()
    columns = [table.column(i).to_pylist() for i in range(2, table.num_columns)]
    values = list(zip(*columns, strict=True))
    came = list(
        zip(table["_ts"].cast(pa.int64()).to_pylist(), table["_diff"].to_pylist(), values, strict=True)
    )
    assert net_of(came) == net_of(rows)
    assert len(came) == sum(abs(count) for count in net_of(rows).values()), "nothing is left that cancels"


def test_a_sink_forgets_what_has_cancelled() -> None:
    sink = sink_of([SqlType.BIGINT])
    for ts, sign, value in ((1, 1, 7), (1, -1, 7), (2, 1, 8)):
        sink.inputs[0].put(as_batch([SqlType.BIGINT], [(ts, sign, (value,))]))
        sink.step(100)
    sink.settle()
    assert sink.drain()["c0"].to_pylist() == [8]
