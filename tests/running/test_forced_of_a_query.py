"""`sharing`, `expiry` and `index` forced of one query among others: the same answers, in another join."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from oracle import rows_of

import penstock
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.options import KNOWN

STREAMS = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)" for name in "ab")
JOIN = "SELECT a.k, a.v, b.v AS w FROM a [RANGE {0} us] JOIN b [RANGE {0} us] ON a.k = b.k WHERE a.v > {1}"
MIRRORED = (
    "SELECT a.k, a.v, b.v AS w FROM b [RANGE {0} us] JOIN a [RANGE {0} us] ON b.k = a.k WHERE a.v > {1}"
)
CHANGES = (
    "SELECT a.k, COUNT(*) AS n, MAX(b.v) AS w FROM a [RANGE {0} us] JOIN b [RANGE {0} us] ON a.k = b.k "
    "WHERE a.v > {1} GROUP BY a.k EMIT CHANGES"
)
THREE = (
    "SELECT a.k FROM a [RANGE {0} us] JOIN b [RANGE {0} us] ON a.k = b.k "
    "JOIN a [RANGE {0} us] AS c ON c.k = b.k"
)
FORCED: list[dict[str, Any]] = [
    *({"sharing": one} for one in KNOWN["sharing"]),
    *({"expiry": one} for one in KNOWN["expiry"]),
    *({"index": one} for one in ("scan", "hash", "t-tree", ("b+tree", "hash"), ("auto", "scan"))),
    {"sharing": "push-down", "index": "scan"},
]


LAST = 88
"""What leaves later is not heard of by all approaches, as no rows come."""


def make(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute(STREAMS)
    return engine


def push(engine: penstock.Engine, first: int, last: int) -> None:
    for at in range(first, last, 5):
        times = list(range(at, at + 5))
        for stream, step in (("a", 7), ("b", 5)):
            columns = {"k": [t % 3 for t in times], "v": [t * step % 11 for t in times]}
            engine.push(stream, {"ts": times, **columns})


def group_of(query: penstock.Query) -> SharedJoin:
    """The first join that it reads, however deep."""
    works = [work for work, _ in query._pipeline.every_reading]
    return next(work for work in works if isinstance(work, SharedJoin))


@pytest.mark.parametrize("usual", ["auto", "chain", "unshared"])
@pytest.mark.parametrize("forced", FORCED, ids=str)
def test_answers_are_the_same_and_outlive_alter_and_checkpoint(usual: str, forced: dict[str, Any]) -> None:
    """Beside neighbours that force nothing; one comes late, and finds what it can."""
    found: list[list[Counter[Any]]] = []
    for keywords in ({}, forced):
        engine = make(sharing=usual)
        texts = [JOIN, CHANGES] if "expiry" not in forced else [CHANGES]
        for text in texts:
            engine.query(text.format(30, 2))
            engine.query(text.format(20, 4), f"forced{texts.index(text) + 2 - len(texts)}", **keywords)
        push(engine, 0, 40)
        changed = engine.queries["forced1"]
        assert changed._forced.sharing == keywords.get("sharing", usual)
        engine.execute("ALTER QUERY forced1 SET WINDOW 10 us")
        push(engine, 40, 60)
        engine = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
        changed = engine.queries["forced1"]
        assert changed._forced.sharing == keywords.get("sharing", usual)
        if "sharing" in keywords:
            assert group_of(changed).strategy == keywords["sharing"]
        push(engine, 60, 90)
        rows = [row for row in rows_of(changed.results()) if row[0] < LAST]
        answer: Counter[Any] = Counter()
        for _, diff, *row in rows:
            answer[tuple(row)] += diff
        found.append([+answer])
        if "expiry" not in forced:  # by which plans go over to other windows at other times
            found[-1] += [Counter(rows), Counter(rows_of(engine.queries["forced0"].results()))]
    assert found[0] == found[1] and all(found[0])


def test_a_join_is_shared_by_those_that_force_the_same() -> None:
    engine = make()
    usual = [engine.query(text.format(20, 1)) for text in (JOIN, CHANGES)]
    forced = [
        engine.query(text.format(size, 1), sharing="mem-opt", index=index)
        for text, size, index in ((JOIN, 30, ("hash", "scan")), (MIRRORED, 40, ("scan", "hash")))
    ]
    others = (
        engine.query(JOIN.format(30, 1), index="scan"),
        engine.query(JOIN.format(30, 1), sharing="unshared"),
    )
    push(engine, 0, 10)
    joins = [group_of(query) for query in (*usual, *forced, *others)]
    assert joins[0] is joins[1] and joins[2] is joins[3] and len(set(map(id, joins))) == 4
    kinds = [[side.kept.index_kind for side in one.joins[0].sides] for one in (joins[2], joins[4])]
    assert kinds == [["hash", "scan"], ["scan", "scan"]]
    explained = engine.explain()
    assert "forced: sharing mem-opt, index hash, scan" in explained and "forced: index scan\n" in explained
    assert explained.count("forced: ") == 4 and "strategy mem-opt" in explained


def test_plans_that_are_made_again_keep_what_was_forced() -> None:
    engine = make(sharing="mem-opt", index="hash", expiry="nta")
    queries = [engine.query(CHANGES.format(20, 1), "q", sharing="auto", index="auto", expiry="auto")]
    engine.set_rate("a", 1e6)
    engine.plan_again()
    queries.append(engine.queries["q"])
    for query in queries:
        assert query._forced == penstock.Engine()._forced
    assert group_of(queries[1]).strategy == "auto" and queries[1]._pipeline.approach == "promises"
    push(engine, 0, 5)
    assert penstock.Engine.restore_bytes(engine.checkpoint_bytes()).queries["q"]._forced == queries[1]._forced


def test_expiry_that_is_forced_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two queries the one that forces nothing goes over."""
    from penstock.optimizer.plan import choose_expiry

    monkeypatch.setattr(choose_expiry, "choose_expiry", lambda *_: "nta")
    engine = make()
    queries = [
        engine.query(CHANGES.format(9, v), expiry=one) for v, one in ((1, "ita"), (2, None), (3, "auto"))
    ]
    engine._adapter.look_after = 10
    push(engine, 0, 60)
    assert [one._pipeline.approach for one in queries] == ["ita", "nta", "nta"]
    assert "expiry ita" in engine.explain()


@pytest.mark.parametrize(
    ("sql", "forced", "said"),
    [
        ("SELECT v FROM a", {"sharing": "chain"}, "a join through windows with sharing=`chain`"),
        ("SELECT v FROM a", {"index": "hash"}, "a join of two streams through windows with index=`hash`"),
        (THREE, {"index": "hash"}, "a join of two streams through windows with index=`hash`"),
        (JOIN, {"expiry": "nta"}, "an answer that rows leave with expiry=`nta`"),
        (
            THREE,
            {"sharing": "chain"},
            "sharing of a join of three or more streams to be one of auto, unshared,",
        ),
        (JOIN, {"sharing": "chian"}, "sharing to be one of auto, .* found `chian`. Did you mean `chain`"),
        (JOIN, {"index": ("hash",) * 3}, "an index or a pair of them"),
        (CHANGES, {"expiry": ""}, "expiry to be one of auto"),
    ],
)
def test_what_does_not_apply_is_refused(sql: str, forced: dict[str, Any], said: str) -> None:
    engine = make()
    with pytest.raises(penstock.UsageError, match=f"Expected .*{said}"):
        engine.query(sql.format(10, 1), **forced)
    assert not engine.queries
    for one in ("sharing", "expiry", "index"):
        engine.query(sql.format(10, 1), **{one: "auto"})
    engine.query(sql.format(10, 1), sharing="unshared")
