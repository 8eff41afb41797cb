"""Factors, positions and frontiers against their definitions, at every prefix of drawn streams.

PI: the place of a row in its stream, from 1. VI: the places that its key has when the stream is sorted. The
picture of figure 1 is lost; this stream of ours has every number that its text says:

    t     1   2   4   5   6   6   7   8   9   10  11
    S1    63      63  66  62      64  69      67
    S2        65              63          68       64
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_streams import factor_of, frontier_of

from penstock import Engine
from penstock.engine.intake import key_sequences
from penstock.engine.intake.key_frontier import KeyFrontier
from penstock.engine.intake.order_rule import OrderRule
from penstock.engine.keys.keys import INT_MIN
from penstock.engine.rows.types import SqlType

KEYS = st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=60)


def arrive(frontier: KeyFrontier, keys: list[int | None], type_: pa.DataType | None = None) -> None:
    followed = frontier.follow(pa.array(keys, type_ or pa.int64()))
    frontier.take(followed)
    frontier.pass_on(followed)
    frontier._check()


def virtual(keys: list[int], key: int) -> tuple[int, int]:
    """VImin and VImax."""
    return 1 + sum(one < key for one in keys), sum(one <= key for one in keys)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is measured counts from the first row on."""
    monkeypatch.setattr(key_sequences, "WARM_ROWS", 0)


@pytest.mark.usefixtures("cold")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(KEYS, st.integers(0, 8))
def test_measured_and_declared_at_every_prefix(keys: list[int | None], declared: int) -> None:
    measured = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
    told = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("rows", declared))
    reader = told.reader()
    most = -np.inf
    for n, key in enumerate(keys, 1):
        arrive(measured, [key])
        arrive(told, [key])
        reader.read(1)
        come = keys[:n]
        factor = factor_of(come)
        assert measured.measured == told.measured == factor
        most = max(most, frontier_of(come, factor))
        assert measured.now == (INT_MIN if most == -np.inf else most + 1), "it rises and never falls"
        expected = frontier_of(come, declared)
        assert reader.now == told.now == (INT_MIN if expected == -np.inf else expected + 1)
    sorted_keys = [key for key in keys if key is not None]
    factor = factor_of(list(sorted_keys))
    for place, key in enumerate(sorted_keys, 1):
        least, last = virtual(sorted_keys, key)
        assert place - least <= factor and last - place <= factor, "theorem 2.1"


@given(st.lists(st.integers(0, 9)))
def test_a_sorted_stream_is_behind_by_its_copies(keys: list[int]) -> None:
    frontier = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
    arrive(frontier, sorted(keys))  # type: ignore[arg-type]
    assert frontier.measured == max((keys.count(key) - 1 for key in keys), default=0)


@given(KEYS, st.integers(0, 6), st.integers(1, 7))
def test_rows_that_break_what_was_declared(keys: list[int | None], size: int, step: int) -> None:
    """The same rows however they come in parts: those more than the factor behind, or too far below."""
    for rule in (OrderRule("rows", size), OrderRule("within", size)):
        frontier = KeyFrontier(0, "k", SqlType.BIGINT, rule)
        broken = []
        for start in range(0, len(keys), step):
            followed = frontier.follow(pa.array(keys[start : start + step], pa.int64()))
            broken += [start + place for place in followed.broken.tolist()]
            frontier.take(followed)
        expected = []
        for n, key in enumerate(keys):
            before = [one for one in keys[:n] if one is not None]
            if key is not None and before:
                by_rows = key <= frontier_of(keys[:n], size)
                expected += [n] if (by_rows if rule.kind == "rows" else key < max(before) - size) else []
        assert broken == expected and frontier.rows_broken == len(expected)


def test_the_factor_rises_at_once_and_falls_with_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sequences, "STEP_ROWS", 1)
    monkeypatch.setattr(key_sequences, "STEPS", 5)
    monkeypatch.setattr(key_sequences, "WARM_ROWS", 0)
    frontier = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
    arrive(frontier, [1, 2, 3, 4])
    assert (frontier.measured, frontier.now) == (0, 5)
    arrive(frontier, [2])
    assert (frontier.measured, frontier.now) == (3, 5)
    arrive(frontier, [6, 7, 8, 9])
    assert (frontier.measured, frontier.now) == (3, 7)
    arrive(frontier, [10])
    assert (frontier.measured, frontier.now) == (0, 11), "what came five rows ago counts no more"


def test_nothing_is_said_before_there_was_something_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sequences, "WARM_ROWS", 4)
    frontier = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
    arrive(frontier, [1, 3, 2])
    assert (frontier.measured, frontier.now) == (1, INT_MIN)
    arrive(frontier, [4])
    assert (frontier.measured, frontier.now) == (1, 4)


@pytest.mark.parametrize("reach", [100, 1_500, 6_000])
def test_factors_of_many_rows(reach: int) -> None:
    """Also those that are found among records that lie further back than most."""
    random_ = np.random.default_rng(reach)
    keys = np.argsort(np.arange(8_000) + random_.uniform(0, reach, 8_000), kind="stable") // 2
    behind = np.arange(8_000) - np.maximum.accumulate(keys).searchsorted(keys)
    frontier = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
    for end in range(1_000, 9_000, 1_000):
        arrive(frontier, keys[end - 1_000 : end].tolist())
        begin = max(0, end - key_sequences.STEPS * key_sequences.STEP_ROWS)
        assert frontier.measured == behind[begin:end].max()


def test_records_that_lie_far_back_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sequences, "REACH_ROWS", 100)
    frontier = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
    for start in range(0, 10_000, 100):
        arrive(frontier, list(range(start, start + 100)))
    assert len(frontier.sequences._records) < 1_000
    arrive(frontier, [0])
    assert frontier.measured >= 99


def test_figure_1() -> None:
    """Factors, virtual indexes and the lags at t5 and t10, by definition 2.6 over the whole streams."""
    one, two = [63, 63, 66, 62, 64, 69, 67], [65, 63, 68, 64]
    assert virtual(one, 66) == (5, 5), "VI(66) = p + 4"
    assert virtual(one, 63)[1] == 3, "VImax(63) = p + 2"

    def lag(come_1: int, come_2: int) -> int:
        instead = sorted(two)[come_2 - 1]  # what would have come last, had the stream been in order
        kin = max(key for key in one if key <= instead)
        return come_1 - virtual(one, kin)[1]

    assert lag(3, 1) == 0  # t5: 66 and 65 are the latest
    assert lag(7, 3) == 3  # t10: 67 and 68
    for keys, factor in ((one, 3), (two, 3)):
        frontier = KeyFrontier(0, "k", SqlType.BIGINT, OrderRule("monitored"))
        arrive(frontier, keys)  # type: ignore[arg-type]
        assert frontier.measured == factor_of(list(keys)) == factor


@pytest.mark.parametrize(
    ("type_", "values", "size", "good", "bad"),
    [
        ("BIGINT", [5, 105], "100", 5, 4),
        ("BIGINT", [7, 7], "0", 7, 6),
        ("DOUBLE", [0.5, 0.8], "0.1", 0.7, 0.699),
        ("DOUBLE", [-1.5], "0", -1.5, -1.5000001),
        ("DOUBLE", [0.0], "0", -0.0, -1e-300),
        ("TIMESTAMP", [5_000_000], "2 SECONDS", 3_000_000, 2_999_999),
        ("TIMESTAMP", [5_000_000], "INTERVAL '0' SECONDS", 5_000_000, 4_999_999),
    ],
)
def test_exactly_as_far_behind_as_declared_is_in_time(
    type_: str, values: list[float], size: str, good: float, bad: float
) -> None:
    engine = Engine()
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k {type_} ORDERED WITHIN {size})")
    engine.push("s", {"ts": [1] * len(values), "k": values})
    engine.push("s", {"ts": [2], "k": [good]})
    with pytest.raises(Exception, match="Expected keys of column `k` in order WITHIN"):
        engine.push("s", {"ts": [3], "k": [bad]})


def test_keys_at_the_ends_of_their_type() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT ORDERED WITHIN 0 ROWS)")
    engine.execute("CREATE STREAM r (ts TIMESTAMP, k BIGINT ORDERED WITHIN 9223)")
    query = engine.query("SELECT k FROM s JOIN r USING (k)")
    ends = [-(1 << 63), 0, (1 << 63) - 1]
    engine.push("s", {"ts": [1, 2, 3], "k": ends})
    engine.push("r", {"ts": [4, 5, 6], "k": ends})
    assert query.results()["k"].to_pylist() == []
    engine.advance(6)
    assert query.results()["k"].to_pylist() == ends
    engine.close()
    assert engine.stats()["queries"]["q1"]["operators"][0]["state_rows"] == 0


def test_rows_that_wait_for_older_ones_hold_the_frontier() -> None:
    """The factor is that of the arrivals; what is given is what there is, whatever the slack."""
    dice = random.Random(5)
    for _ in range(60):
        slack, rows = dice.choice((0, 3, 20)), 60
        arrived = {}
        engine = Engine()
        for name in "ab":
            order = sorted(range(rows), key=lambda i: i + dice.uniform(0, 4))
            keys: list[int | None] = [i // 2 for i in order]
            ts, latest = [], 0
            for i in range(rows):
                latest = max(latest, i + 25)
                ts.append(latest - dice.randint(0, slack) if slack else latest)
            arrived[name] = list(zip(ts, keys, strict=True))
            engine.execute(
                f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT ORDERED WITHIN {factor_of(keys)} ROWS, "
                f"WATERMARK FOR ts AS ts - INTERVAL '{slack}' MICROSECONDS)"
            )
        query = engine.query("SELECT a.k FROM a JOIN b ON a.k = b.k")
        for at in range(0, rows, 7):
            for name in "ab":
                part = arrived[name][at : at + 7]
                engine.push(name, {"ts": [ts for ts, _ in part], "k": [key for _, key in part]})
        engine.close()
        assert sorted(query.results()["k"].to_pylist()) == sorted(i // 2 for i in range(rows) for _ in "ab")
        assert query.accuracy == 1.0
