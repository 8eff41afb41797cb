"""GROUP BY against a twin that computes every group anew from the rows that are there, at every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from changes_help import Change, alive, drawn_changes, drive, folded, instants, row_key
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.known_time import Learning
from penstock.engine.operators.group_by import GroupBy
from penstock.engine.plan import AggregateCallNode, AggregateNode, SourceNode
from penstock.engine.queue import Queue
from penstock.engine.types import SqlType

TYPES = (SqlType.BIGINT, SqlType.VARCHAR, SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN)
DOUBLES = st.sampled_from((None, 0.0, -0.0, 0.1, 0.2, 0.3, 1e308, -1e308, 5e-324, 1e-300, 2.5, -7.75, 1e16))
SPECIAL = st.sampled_from((math.nan, math.inf, -math.inf))
VALUES = st.tuples(
    st.sampled_from((None, 1, 2)),
    st.sampled_from((None, "", "a", "ä")),
    st.sampled_from((None, 0, 1, 1, -3, 2**62, -(2**62))),
    st.one_of(DOUBLES, DOUBLES, DOUBLES, SPECIAL),
    st.sampled_from((None, True, False)),
)

Call = tuple[str, int | None, bool]


def calls_of(keys: int) -> list[Call]:
    return [
        ("count", None, False),
        ("count", 1, True),
        ("sum", 3, False),
        ("avg", 3, False),
        ("avg", 2, False),
        ("min", 3, False),
        ("max", 3, False),
        ("max", 4, False),
        ("min", 2, False),
        ("count", 4, False),
        ("count", 3, True),
        ("avg", 3, True),
        ("sum", 3, True),
        ("avg", 2, True),
        ("max", 2, False),
    ]


def node_of(keys: int, calls: Sequence[Call], withdrawn: bool) -> AggregateNode:
    def type_of(function: str, argument: int | None) -> SqlType:
        if function == "count" or argument is None:
            return SqlType.BIGINT
        return SqlType.DOUBLE if function == "avg" else TYPES[argument]

    nodes = tuple(AggregateCallNode(f, a, d, type_of(f, a)) for f, a, d in calls)  # type: ignore[arg-type]
    return AggregateNode(SourceNode("s", TYPES), keys, nodes, withdrawn)


def exact_sum(values: Sequence[float]) -> float:
    """Of doubles: NaN and infinities as they are, everything else exact and rounded once."""
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    for infinite in (math.inf, -math.inf):
        if infinite in values:
            return infinite
    total = sum((Fraction(v) for v in values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def aggregate(call: Call, rows: Sequence[tuple[Any, ...]]) -> Any:
    function, argument, distinct = call
    if argument is None:
        return len(rows)
    values = [row[argument] for row in rows if row[argument] is not None]
    if distinct:
        values = list({row_key((value,)): value for value in values}.values())
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        best = (min if function == "min" else max)(
            values, key=lambda v: (isinstance(v, float) and math.isnan(v), v)
        )
        return best + 0.0 if isinstance(best, float) else best
    if isinstance(values[0], float):
        total: Any = exact_sum(values)
    else:
        total = sum(values)
    return float(total) / len(values) if function == "avg" else total


def answer(changes: Sequence[Change], now: int, keys: int, calls: Sequence[Call]) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, list[tuple[Any, ...]]] = {(): []} if keys == 0 else {}
    for one in alive(changes, now):
        groups.setdefault(row_key(one.values[:keys]), []).append(one.values)
    return Counter(
        row_key((rows[0][:keys] if rows else ()) + tuple(aggregate(call, rows) for call in calls))
        for rows in groups.values()
    )


LEARNINGS: tuple[Learning, ...] = ("promises", "messages", "rows")


@pytest.mark.parametrize("withdrawn", [False, True])
@pytest.mark.parametrize("keys", [0, 1, 2])
@settings(max_examples=60)
@given(data=st.data())
def test_every_instant_is_right(withdrawn: bool, keys: int, data: Any) -> None:
    changes = data.draw(drawn_changes(VALUES, withdrawn=withdrawn))
    calls = calls_of(keys)
    node = node_of(keys, calls, withdrawn)
    learning = data.draw(st.sampled_from(LEARNINGS))
    operator = GroupBy(node, Queue(), TYPES, "g", learning)
    seed = data.draw(st.one_of(st.none(), st.integers(0, 99)))
    out = drive(operator, [changes], TYPES, seed)
    for now in instants(changes):
        if keys or now >= changes[0].ts:
            assert folded(out, now) == answer(changes, now, keys, calls), now
    if not any(change.ets > 10_000 for change in changes):
        assert operator.state_rows == 0
    if seed is None:
        check_net(out, keys)


def check_net(out: Sequence[Change], keys: int) -> None:
    """Within an instant no group says more than one -1 and one +1, and they differ."""
    seen: dict[Any, Change] = {}
    for row in out:
        place = (row.ts, row.sign, row_key(row.values[:keys]))
        assert place not in seen
        seen[place] = row
        other = seen.get((row.ts, -row.sign, row_key(row.values[:keys])))
        assert other is None or row_key(other.values) != row_key(row.values)
