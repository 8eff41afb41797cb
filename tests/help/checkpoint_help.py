"""An engine and its restored twin, driven alike: whatever one says, the other says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock

MEASURED = {
    "busy_s", "state_bytes", "average", "max", "p50", "p90", "p95", "p99",
    "average_us", "max_us", "p50_us", "p90_us", "p95_us", "p99_us",
}  # fmt: skip
"""What depends on the machine or on how much room there is, not on what was pushed."""


def again(engine: penstock.Engine, **options: Any) -> penstock.Engine:
    """The engine as it comes back from a checkpoint."""
    restored = penstock.Engine.restore_bytes(engine.checkpoint_bytes(**options))
    restored._runtime._check()
    return restored


def rows_said(stats: Any) -> Any:
    """The part of `stats` that counts rows."""
    if isinstance(stats, dict):
        return {
            key: rows_said(value)
            for key, value in stats.items()
            if key not in MEASURED and "delay" not in key and "steps" not in key
        }
    return [rows_said(one) for one in stats] if isinstance(stats, list) else stats


class Twins:
    """Does everything twice and compares."""

    def __init__(self, one: penstock.Engine, two: penstock.Engine) -> None:
        self.one = one
        self.two = two

    def do(self, action: Callable[[penstock.Engine], Any]) -> Any:
        """Returns what the first one gave, or its error in words."""
        answers = []
        for engine in (self.one, self.two):
            try:
                answers.append(action(engine))
            except penstock.PenstockError as error:
                answers.append(f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}")
        if not isinstance(answers[0], penstock.Query):
            assert answers[0] == answers[1]
        return answers[0]

    def compare(self, *, read: bool = True) -> None:
        """Names, plans, rows, counts and invariants are the same; `read`: also what is new."""
        one, two = self.one, self.two
        assert list(one.queries) == list(two.queries)
        for name, query in one.queries.items():
            twin = two.queries[name]
            assert query.count == twin.count, name
            assert (query.sql, query.complete_from, query.schema) == (
                twin.sql, twin.complete_from, twin.schema,
            )  # fmt: skip
            if read:
                mine, theirs = (words_or_rows(each) for each in (query, twin))
                assert mine == theirs, name
        assert one.explain() == two.explain()
        assert one.explain(json=True) == two.explain(json=True)
        assert one.explain(analyze=True) and two.explain(analyze=True)
        assert rows_said(one.stats()) == rows_said(two.stats())
        one._runtime._check()
        two._runtime._check()


def words_or_rows(query: penstock.Query) -> Any:
    """What is new, in order, as text, in which NaN is NaN; or why there is nothing."""
    try:
        return list(map(repr, query.results().to_pylist()))
    except penstock.PenstockError as error:
        return str(error)
