"""Joins in brackets, `a JOIN (b JOIN c ON ..) ON ..`, against DuckDB at every instant.

a LEFT JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k      a row of a without partners has NULLs for b and c
(a LEFT JOIN b ON a.k = b.k) JOIN c ON b.k = c.k      has none of these rows
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import CONDITIONS, Trees
from test_changes_oracle import APPROACHES, Folded, arrivals, drive, expected, found, make_engine, make_oracle

import penstock

KINDS = ["JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]


class Brackets:
    """Draws a FROM of so many items, in brackets wherever these may stand."""

    def __init__(self, draw: Any, trees: Trees) -> None:
        self.draw = draw
        self.trees = trees
        self.aliases: list[str] = []

    def item(self, size: int) -> tuple[str, str]:
        if size == 1:
            return self.leaf()
        left = self.draw(st.integers(1, size - 1))
        parts = [self.item(left), self.item(size - left)]
        first, second = (self.own(part) for part in self.sides(left, size))
        kind = self.draw(st.sampled_from(KINDS))
        condition = (
            self.draw(st.sampled_from(CONDITIONS)).replace("p.", f"{first}.").replace("q.", f"{second}.")
        )
        on = "" if kind == "CROSS JOIN" else f" ON {condition}"
        one, two = (f"({left} {kind} {right}{on})" for left, right in zip(*parts, strict=True))
        return one, two

    def sides(self, left: int, size: int) -> tuple[list[str], list[str]]:
        """Aliases of the items drawn last: those of the left part and of the right one."""
        latest = self.aliases[-size:]
        return latest[:left], latest[left:]

    def own(self, aliases: list[str]) -> str:
        return self.draw(st.sampled_from(aliases))

    def leaf(self) -> tuple[str, str]:
        scan = self.trees.scan()
        alias = self.trees.name()
        self.aliases.append(alias)
        if scan.duck != "SELECT k, v FROM t" and self.draw(st.booleans()):
            last = self.trees.references[-1]
            self.aliases[-1] = last.alias
            return f"({last.penstock})" if self.draw(st.booleans()) else last.penstock, last.alias
        return f"({scan.penstock}) AS {alias}", f"({scan.duck}) AS {alias}"


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize("approach", APPROACHES[:3])
def test_bracketed_joins_oracle_at_every_instant(approach: str, data: st.DataObject) -> None:
    draw = data.draw
    streams = {"a": draw(arrivals()), "b": draw(arrivals())}
    trees = Trees(draw, list(streams))
    brackets = Brackets(draw, trees)
    clause = brackets.item(draw(st.integers(2, 4)))
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    columns = ", ".join(f"{alias}.k, {alias}.v" for alias in brackets.aliases)
    ours, theirs = (f"SELECT {columns} FROM {one}" for one in clause)
    engine = make_engine(draw, approach, streams)
    folded = Folded(engine.query(f"{ours} EMIT CHANGES"))
    for _ in drive(draw, engine, streams):
        folded.read()
    engine.advance(max(ts for table in streams.values() for ts in table["ts"].to_pylist()) + 30)
    engine.close()
    folded.read()
    oracle = make_oracle(streams, trees)
    for instant in draw(st.permutations(sorted(set(times))))[:6]:
        assert found(folded, instant) == expected(oracle, theirs, instant), f"{ours} at {instant}"


def test_the_order_of_brackets_is_kept() -> None:
    rows = {"a": [1, 2], "b": [1, 3], "c": [3]}
    answers = {
        "a {0} AS a LEFT JOIN (b {0} AS b JOIN c {0} AS c ON b.x = c.x) ON a.x = b.x": {
            (1, None, None), (2, None, None)
        },
        "(a {0} AS a LEFT JOIN b {0} AS b ON a.x = b.x) JOIN c {0} AS c ON b.x = c.x": set(),
        "a {0} AS a LEFT JOIN ((b {0} AS b LEFT JOIN (c {0} AS c) ON b.x = c.x)) ON a.x = b.x": {
            (1, 1, None), (2, None, None)
        },
    }  # fmt: skip
    for text, expected_rows in answers.items():
        engine = penstock.Engine()
        for name in rows:
            engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, x BIGINT)")
        query = engine.query(f"SELECT a.x, b.x, c.x FROM {text.format('[RANGE 9 SECONDS]')} EMIT CHANGES")
        for name, values in rows.items():
            engine.push(name, {"ts": [1] * len(values), "x": values})
        engine.advance(2)
        answer: dict[tuple[Any, ...], int] = {}
        for _, diff, *row in (tuple(each.values()) for each in query.results().to_pylist()):
            answer[tuple(row)] = answer.get(tuple(row), 0) + diff
        assert {row for row, count in answer.items() if count} == expected_rows, text
