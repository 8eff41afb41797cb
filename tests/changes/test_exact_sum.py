"""Sums in digits against fractions: exact whatever comes and goes, rounded once."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.engine.changes.aggregates import Sum
from penstock.engine.changes.argument import Argument
from penstock.engine.changes.group_by import GroupBy
from penstock.engine.changes.group_table import Changes
from penstock.engine.flow.queue import Queue
from penstock.engine.kernels.rows.keys import encode_doubles
from penstock.engine.keys.keys import encode_double
from penstock.engine.plan.plan import AggregateCallNode, AggregateNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import ARROW_TYPES, SqlType

DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        (1e308, -1e308, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 0.1, 2.0**53, 1.0)
    ),
)


def sums_of(values: list[float] | list[int], signs: list[int], average: bool = False) -> list[float | None]:
    """What a group's sum is after each of these has come (1) or gone (-1)."""
    type_ = SqlType.DOUBLE if isinstance(values[0], float) else SqlType.BIGINT
    count = len(values)
    argument = Argument(0, type_)
    argument.begin(Batch(np.zeros(count, np.int64), [pa.array(values, ARROW_TYPES[type_])]))
    numbers, until = np.arange(count, dtype=np.int32), np.arange(1, count + 1, dtype=np.int32)
    zeros, ones = np.zeros(count, np.int32), np.ones(count, np.int64)
    changes = Changes(
        count, zeros, np.array(signs, np.int8), numbers, np.full(count, -1, np.int32),
        count, ones, zeros, until, ones, ones,
    )  # fmt: skip
    sums = Sum(argument, argument, average)
    value, valid = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    sums.begin(np.empty(0, np.int64))
    argument.run(changes, 1)
    assert sums.run(changes, 1, value, valid) == count
    read = value.view(np.float64) if average or type_ is SqlType.DOUBLE else value
    return [read[i].item() if valid[i] else None for i in range(count)]


def rounded(total: Fraction) -> float:
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@pytest.mark.twin("exact_sum.run_sums")
@given(st.lists(st.tuples(DOUBLES, st.sampled_from((1, 1, -1))), min_size=1, max_size=20))
@example([(1e308, 1), (1e308, 1), (-1e308, 1), (1e308, -1)])
@example([(-1e308, 1), (-1e308, 1), (-1e308, 1), (-1e308, 1), (1.5, 1)])
@example([(2.0**53, 1), (1.0, 1), (5e-324, 1)])
@example([(-(2.0**53), 1), (-1.0, 1), (-5e-324, 1), (5e-324, 1)])
@example([(2.0**60, 1), (-1.0, 1), (2.0**-60, 1)])
def test_doubles_as_fractions(changes: list[tuple[float, int]]) -> None:
    values, signs = [value for value, _ in changes], [sign for _, sign in changes]
    total, count = Fraction(0), 0
    for (value, sign), said in zip(changes, sums_of(values, signs), strict=True):
        total += sign * Fraction(value)
        count += sign
        assert said == (rounded(total) if count else None)


@given(st.lists(DOUBLES, min_size=1, max_size=50))
def test_as_fsum(values: list[float]) -> None:
    try:
        expected = math.fsum(values)
    except OverflowError:
        return
    assert sums_of(values, [1] * len(values))[-1] == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_average_of_integers(values: list[int]) -> None:
    said = sums_of(values, [1] * len(values), average=True)
    for i, one in enumerate(said):
        assert one == float(sum(values[: i + 1])) / (i + 1)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30), st.randoms())
def test_integers_come_and_go(values: list[int], chance) -> None:  # type: ignore[no-untyped-def]
    left = list(values)
    chance.shuffle(left)
    halves = [value // 64 for value in values]
    leaving = [value // 64 for value in left]
    said = sums_of(halves + leaving, [1] * len(halves) + [-1] * len(leaving))
    assert said[len(values) - 1] == sum(halves)
    assert said[-1] is None
    if len(values) > 1:
        assert said[-2] == leaving[-1]


@pytest.mark.twin("keys.encode_doubles")
@given(st.lists(st.one_of(st.floats(), st.sampled_from((-0.0, math.nan, -math.nan))), max_size=20))
def test_codes_of_doubles(values: list[float]) -> None:
    doubles = np.array(values, np.float64)
    assert encode_doubles(doubles.view(np.int64)).tolist() == encode_double(doubles).tolist()


def drift(rows: int) -> None:
    """Values of all sizes come and go in a window of 1000 rows, in two groups; the last stay."""
    rng = np.random.default_rng(3)
    nasty = np.array([1e308, -1e308, 1.7e308, 1e-300, -1e-300, 0.1, 0.2, 3e15, 5e-324, -7e22])
    types = (SqlType.BIGINT, SqlType.DOUBLE)
    calls = tuple(AggregateCallNode(one, 1, False, SqlType.DOUBLE) for one in ("sum", "avg"))  # type: ignore[arg-type]
    queue, out = Queue(), Queue()
    node = AggregateNode(SourceNode("s", types), 1, calls, False)
    operator = GroupBy(node, queue, types, "g", "promises")
    operator.output.queues.append(out)
    ts = 0
    kept: list[tuple[int, float]] = []
    last: dict[int, tuple[float, float]] = {}
    while ts < rows:
        count = min(32_768, rows - ts)
        times = np.arange(ts, ts + count)
        # Many rows at one instant: few answers are asked for, so that it is the sums that take the time.
        times -= times % 100
        keys, values = rng.integers(0, 2, count), rng.choice(nasty, count)
        queue.put(Batch(times, [pa.array(keys), pa.array(values)], None, times + 1000))
        kept = list(zip(times.tolist(), keys.tolist(), values.tolist(), strict=True))[-2000:]  # type: ignore[arg-type]
        queue.promise(int(times[-1]))
        ts += count
        while operator.step(32_768):
            while out.batches:
                batch = out.pop()
                for i in range(max(0, batch.length - 4), batch.length):
                    if batch.signs[i] > 0:
                        key, *said = (batch.column(column)[i].as_py() for column in range(3))
                        last[key] = said[0], said[1]
    now = kept[-1][0]
    for key in (0, 1):
        there = [value for time, k, value in kept if k == key and time > now - 1000]  # type: ignore[misc]
        total = sum((Fraction(value) for value in there), Fraction(0))
        assert struct.pack("d", last[key][0]) == struct.pack("d", rounded(total))
        assert struct.pack("d", last[key][1]) == struct.pack("d", rounded(total) / len(there))
    queue.promise(rows + 10_000)
    while operator.step(32_768):
        pass
    assert operator.state_rows == 0
    operator._check()
    aggregate = operator._aggregates[0]
    assert isinstance(aggregate, Sum) and not aggregate._sums.any(), "something is left of what has gone"


def test_ten_million_rows_leave_nothing_behind() -> None:
    drift(10_000_000)


@settings(max_examples=30)
@given(st.lists(DOUBLES, min_size=2, max_size=12), st.data())
def test_digits_grow_while_there_are_sums(values: list[float], data: st.DataObject) -> None:
    """Batches of one row each, so that the range of digits is widened step by step, both ways."""
    types = (SqlType.DOUBLE,)
    node = AggregateNode(
        SourceNode("s", types), 0, (AggregateCallNode("sum", 0, False, SqlType.DOUBLE),), False
    )
    queue, out = Queue(), Queue()
    operator = GroupBy(node, queue, types, "g", "rows")
    operator.output.queues.append(out)
    lives = [data.draw(st.integers(1, 5)) for _ in values]
    for ts, (value, life) in enumerate(zip(values, lives, strict=True)):
        queue.put(Batch(np.array([ts]), [pa.array([value])], None, np.array([ts + life])))
        queue.promise(ts)
        while operator.step(10):
            pass
        said = [out.batches[-1].column(0)[-1].as_py()]
        there = [v for at, v in enumerate(values[: ts + 1]) if at + lives[at] > ts]
        assert said == [rounded(sum((Fraction(v) for v in there), Fraction(0)))]
