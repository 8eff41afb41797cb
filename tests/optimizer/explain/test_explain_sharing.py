"""EXPLAIN of joins that queries share: slices, selections, counts, costs against those worked out plainly."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plans import WEIGHTS, nodes

import penstock
from penstock.engine.expressions.expression import Call, Column, Expression, Literal
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER
from penstock.optimizer.share import lay_out_joins
from penstock.optimizer.share.selection import Selection

STRATEGIES = ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain", "chain-cpu"]
DECLARE = """
    CREATE STREAM a (ts TIMESTAMP, id BIGINT, key BIGINT, value DOUBLE);
    CREATE STREAM b (ts TIMESTAMP, id BIGINT, key BIGINT, value DOUBLE);
"""
SECOND = 1_000_000
TRIO = [("10 SECONDS", ""), ("20 SECONDS", "a.value > 0.8"), ("30 SECONDS", "a.value > 0.8")]


def start(sharing: str, asked: list[tuple[str, str]], **keywords: Any) -> penstock.Engine:
    """An engine with queries q1, q2, ...: a window for both sides and a filter each."""
    engine = penstock.Engine(weights=WEIGHTS, sharing=sharing, **keywords)
    engine.execute(DECLARE)
    for number, (window, where) in enumerate(asked, 1):
        add(engine, f"q{number}", f"RANGE {window}", f"RANGE {window}", where)
    return engine


def add(engine: penstock.Engine, name: str, left: str, right: str, where: str = "", **keywords: Any) -> None:
    text = f"SELECT a.id, b.id AS other FROM a [{left}] JOIN b [{right}] ON a.key = b.key"
    engine.query(text + (f" WHERE {where}" if where else ""), name=name, **keywords)


def plan_of(engine: penstock.Engine, analyze: bool = False) -> dict[str, Any]:
    return json.loads(engine.explain(analyze=analyze, json=True))


def push(engine: penstock.Engine, rows: int, step: int = SECOND) -> None:
    """Rows at every step; keys take turns of 5, values of 10: 0.0, 0.1, ... 0.9."""
    for stream in ("a", "b"):
        engine.push(
            stream,
            {
                "ts": [i * step for i in range(rows)],
                "id": list(range(rows)),
                "key": [i % 5 for i in range(rows)],
                "value": [i % 10 / 10 for i in range(rows)],
            },
        )


# -- slices ---------------------------------------------------------------------------------------------

VALUES = (-1, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6)
FILTERS = [
    "",
    "v > {}",
    "v >= {}",
    "v < {}",
    "v <= {}",
    "{} < v",
    "v = {}",
    "v > {} AND v < 4",
    "v = {} AND v > 1",
]


UNBOUNDED = 7  # for a window in seconds


@st.composite
def queries(draw: Any) -> list[tuple[int, int, str, str]]:
    """Windows in seconds and filters on `v`, left and right."""
    found = []
    for _ in range(draw(st.integers(2, 6))):
        filters = [draw(st.sampled_from(FILTERS)).format(draw(st.integers(0, 5))) for _ in range(2)]
        found.append((draw(st.integers(1, UNBOUNDED)), draw(st.integers(1, UNBOUNDED)), *filters))
    return found


def window_of(size_s: int) -> str:
    return "RANGE UNBOUNDED" if size_s == UNBOUNDED else f"RANGE {size_s} SECONDS"


def size_of(size_s: int) -> int:
    return FOREVER if size_s == UNBOUNDED else size_s * SECOND


def size_text(size_s: int) -> str:
    return "unbounded" if size_s == UNBOUNDED else f"{size_s} SECOND" + "S" * (size_s > 1)


def with_ends(slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slices of which the last one has an end too, if it is unbounded."""
    return [one | {"end": FOREVER if one["end"] is None else one["end"]} for one in slices]


def is_let_in(selection: str, value: float) -> bool:
    """Whether a selection, as written, lets a row in."""
    words = {
        "all rows": "True",
        "no rows": "False",
        " but not ": " and not ",
        " OR ": " or ",
        " AND ": " and ",
    }
    for word, plain in words.items():
        selection = selection.replace(word, plain)
    if " and not " in selection:
        first, second = selection.split(" and not ")
        selection = f"({first}) and not ({second})"
    return bool(eval(re.sub(r" = ", " == ", re.sub(r"\b[ab]\.value\b", "v", selection)), {"v": value}))


def satisfies(where: str, value: float) -> bool:
    return not where or bool(eval(where.replace(" = ", " == ").replace("AND", "and"), {"v": value}))


def is_contradiction(where: str) -> bool:
    """A query with such a filter on one stream needs no rows of the other either."""
    return not any(satisfies(where, value) for value in VALUES)


@pytest.mark.parametrize("sharing", STRATEGIES)
@settings(max_examples=10, deadline=None)
@given(asked=queries(), rate=st.sampled_from([1, 1_000]))
def test_slices_are_those_of_the_queries(
    asked: list[tuple[int, int, str, str]], rate: int, sharing: str
) -> None:
    """A slice lets in what the queries that reach it need, and those take it; rows add up to the state.

    Where rows are few, slices are merged.
    """
    engine = penstock.Engine(weights=WEIGHTS, sharing=sharing)
    engine.execute(DECLARE)
    for stream in ("a", "b"):
        engine.set_rate(stream, rate)
    for number, (left, right, on_left, on_right) in enumerate(asked):
        wheres = [on_left.replace("v", "a.value"), on_right.replace("v", "b.value")]
        where = " AND ".join(filter(None, wheres))
        add(engine, f"q{number}", window_of(left), window_of(right), where)
    plan, text = plan_of(engine), engine.explain()
    (group,) = plan["groups"]
    assert group["queries"] == [f"q{number}" for number in range(len(asked))]
    idle = {f"q{number}" for number, one in enumerate(asked) if any(map(is_contradiction, one[2:]))}
    kept = 0.0
    for at, side in enumerate(group["sides"]):
        parts = side.get("parts")
        slices = with_ends(parts or side["slices"])
        windows = {f"q{n}": size_of(one[at]) for n, one in enumerate(asked)}
        where_of = {f"q{n}": one[2 + at] for n, one in enumerate(asked)}
        assert side["longest_window"] == size_text(max(one[at] for one in asked))
        kept += side["state_rows"]
        assert side["state_rows"] == pytest.approx(sum(one["rows"] for one in slices))
        leaving = [name for one in slices for name in one["leaving"]]
        if sharing == "push-down":  # a part nobody's rows can be in is left out
            assert len(set(leaving)) == len(leaving) and set(leaving) <= set(windows)
        else:
            assert sorted(leaving) == sorted(windows)
        if parts:
            continue
        assert [one["start"] for one in slices] == [0, *(one["end"] for one in slices[:-1])]
        assert slices[-1]["end"] == max(windows.values())
        for number, one in enumerate(slices, 1):
            takers = [name for name, size in windows.items() if size > one["start"]]
            assert one["queries"] == len(takers)
            assert one["leaving"] == [name for name in takers if windows[name] <= one["end"]]
            assert re.search(
                rf"{number}  {re.escape(one['ages'])} +{one['rows']:,.0f}  {len(takers)}: ", text
            )
            assert one["selection"] in text
            if "..." in one["selection"]:
                continue
            for value in VALUES:
                needed = any(satisfies(where_of[name], value) for name in takers if name not in idle)
                assert is_let_in(one["selection"], value) == (needed or group["runs"] == "pull-up"), (
                    one,
                    value,
                )
        for query in plan["queries"]:
            (share,) = (node for node in nodes(query) if node.get("group_side") == side["side"])
            first, last = share["slices"]
            size = windows[query["query"]]
            reached = sum(one["start"] < size for one in slices)
            assert (first, last, share["of"]) == (1, reached, len(slices))
    if "parts" not in group["sides"][0]:
        assert kept == pytest.approx(group["costs"][group["runs"]]["state_rows"])


@settings(max_examples=20, deadline=None)
@given(queries())
def test_parts_are_disjoint_and_let_in_what_is_needed(asked: list[tuple[int, int, str, str]]) -> None:
    """Of the side that is split, a row is in the part of the longest window that needs it and in no other."""
    engine = penstock.Engine(weights=WEIGHTS, sharing="push-down")
    engine.execute(DECLARE)
    for number, (left, _, on_left, _) in enumerate(asked):
        add(engine, f"q{number}", window_of(left), window_of(left), on_left.replace("v", "a.value"))
    split, other = plan_of(engine)["groups"][0]["sides"]
    is_wanted = any(satisfies(where, value) for _, _, where, _ in asked for value in VALUES)
    assert {one["selection"] for one in other["parts"]} == {"all rows" if is_wanted else "no rows"}
    parts = with_ends(split["parts"])
    if any("..." in one["selection"] for one in parts):
        return
    for value in VALUES:
        lifetime = max((size_of(left) for left, _, where, _ in asked if satisfies(where, value)), default=0)
        held = [one["end"] for one in parts if is_let_in(one["selection"], value)]
        if len(parts) > 1:
            assert held == ([lifetime] if lifetime else [])
        else:  # all ask the same
            assert held == ([parts[0]["end"]] if lifetime else [])


def test_text_and_json_say_the_same() -> None:
    for sharing in STRATEGIES:
        engine = start(sharing, TRIO)
        text, plan = engine.explain(), plan_of(engine)
        (group,) = plan["groups"]
        title, *_ = text[text.rindex("\nShared ") + 1 :].splitlines()
        assert title == f"Shared {group['group']}  {group['condition']}"
        asked = group["strategy"]
        assert f"\n  strategy {asked}{'' if group['runs'] == asked else ': ' + group['runs']}\n" in text
        for name, cost in group["costs"].items():
            mark = r"\*" if name == group["runs"] else " "
            numbers = rf"{cost['state_rows']:,.0f} +{re.escape(format(cost['cores'], '.3g'))}"
            assert re.search(rf"{mark}  {name} +{numbers}  {re.escape(cost['note'])}", text), (sharing, name)
        for side in group["sides"]:
            how = "nested loops" if side["index"] is None else f"index {side['index']}"
            assert f"{side['side']}: {side['stream']}  {how}, longest window {side['longest_window']}" in text
            assert f"{side['state_rows']:,.0f} rows kept" in text
        for query in plan["queries"]:
            (join,) = (node for node in nodes(query)[1:] if node["node"] == "SharedJoin")
            assert join["group"] == group["group"]
            for side in join["inputs"]:
                assert f"{side['side']}: {side['stream']} [{side['window']}]  " in text


def test_a_join_of_one_query_is_not_shared() -> None:
    for sharing in STRATEGIES:
        engine = start(sharing, TRIO[:1])
        assert "Shared" not in engine.explain()
        assert "WindowJoin a.key = b.key" in engine.explain(analyze=True)
        assert "groups" not in plan_of(engine)


# -- measured -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_analyze_says_what_was_measured(sharing: str) -> None:
    """Counts are the queries' own; the state is that of rows within the windows, counted by hand."""
    engine = start(sharing, TRIO)
    add(engine, "counted", "RANGE 5 SECONDS", "RANGE 5 SECONDS", "a.value = 0.3", count_only=True)
    push(engine, 100)
    engine.advance(99 * SECOND)
    plan, text = plan_of(engine, analyze=True), engine.explain(analyze=True)
    (group,) = plan["groups"]
    measured = group["measured"]
    assert measured["by_query"] == {name: query.count for name, query in engine.queries.items()}
    assert measured["rows_in"] == 200
    assert measured["rows_out"] == sum(measured["by_query"].values())
    for query in plan["queries"]:
        (join,) = (node for node in nodes(query)[1:] if node["node"] == "SharedJoin")
        assert join["measured"]["pairs"] == measured["by_query"][query["query"]]
    # Rows at 0 .. 99 s; at 99 s ages 0 .. 9 are below 10 s. Of a, one of ten has 0.9 > 0.8: ages 0, 10, 20.
    left = {"pull-up": 30, "push-down": 9 + 3}.get(group["runs"], 10 + 2)
    right = {"push-down": 30 + 10}.get(group["runs"], 30)
    if group["runs"] == "cpu-opt":
        left = group["sides"][0]["measured"]["state_rows"]  # depends on what was merged
        assert 12 <= left <= 30
    assert [side["measured"]["state_rows"] for side in group["sides"]] == [left, right]
    assert measured["state_rows"] == left + right
    for side in group["sides"]:
        held = next(v for k, v in side["measured"].items() if k in ("shelves", "slices", "parts"))
        assert sum(one["rows"] for one in held) == side["measured"]["state_rows"]
    assert f"measured: state {left + right:,} rows, {measured['state_bytes']:,} bytes" in text
    assert f"q1 {engine.queries['q1'].count:,}, q2 {engine.queries['q2'].count:,}" in text
    assert "measured" not in engine.explain()


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_costs_at_measured_rates_stand_beside_the_estimates(sharing: str) -> None:
    engine = start(sharing, TRIO)
    draw = np.random.default_rng(1)
    for first in range(0, 4_000, 400):
        for stream in ("a", "b"):
            ids = np.arange(first, first + 400)
            rows = {"ts": ids * 10_000, "id": ids, "key": ids % 5, "value": draw.random(400)}
            engine.push(stream, pa.table(rows).cast(engine.streams[stream]))
    (group,) = plan_of(engine, analyze=True)["groups"]
    measured = group["measured"]
    assert measured["left_rate"] == measured["right_rate"] == pytest.approx(100, rel=0.01)
    assert measured["selectivity"] == pytest.approx(1 / 5, rel=0.3)
    assert measured["costs"].keys() == group["costs"].keys()
    for name, cost in group["costs"].items():
        assert measured["costs"][name]["state_rows"] < cost["state_rows"], "a tenth of the assumed rate"
    # a.value > 0.8 lets a fifth through
    expected = 100 * (10 + 20 / 5) + 100 * 30
    assert measured["costs"]["mem-opt"]["state_rows"] == pytest.approx(expected, rel=0.05)
    text = engine.explain(analyze=True)
    assert "costs, estimated and at the measured rates" in text
    assert re.search(r"measured: 100 and 100 rows/s, [\d,]+ pairs/s; at these the model says", text)


def test_a_chain_with_merged_slices_is_priced_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the one that has a slice for every window, which keeps fewer rows."""
    monkeypatch.setattr(lay_out_joins, "cheapest_chain_by_row", lambda number, costs: (number,))
    engine = start("chain-cpu", TRIO)
    (group,) = plan_of(engine)["groups"]
    costs = group["costs"]
    assert (costs["chain"]["note"], costs["chain-cpu"]["note"]) == (
        "3 slices, nested loops",
        "1 slice, nested loops",
    )
    assert costs["chain"]["state_rows"] < costs["chain-cpu"]["state_rows"] == costs["pull-up"]["state_rows"]
    assert re.search(r"\* +chain-cpu ", engine.explain())
    assert "chain-cpu" not in plan_of(start("chain", TRIO))["groups"][0]["costs"]


def test_a_chain_with_an_unbounded_window_is_priced() -> None:
    """Slices may be merged, and the last of them has no end."""
    engine = start("chain-cpu", TRIO[:1])
    add(engine, "q2", "RANGE UNBOUNDED", "RANGE 20 SECONDS")
    (group,) = plan_of(engine)["groups"]
    assert group["costs"]["chain-cpu"]["state_rows"] <= group["costs"]["pull-up"]["state_rows"]


# -- queries that come and go -----------------------------------------------------------------------------


def test_a_query_that_started_in_the_middle_says_from_when_it_is_exact() -> None:
    engine = start("auto", TRIO)
    push(engine, 100)
    add(engine, "late", "RANGE 40 SECONDS", "RANGE 5 SECONDS")
    add(engine, "rows", "ROWS 7", "ROWS 7")
    engine.query("SELECT id FROM a", name="plain")
    data = {query["query"]: query for query in plan_of(engine)["queries"]}
    text = engine.explain()
    moment = engine.queries["late"].complete_from
    assert moment is not None
    assert data["late"]["exact_from"] == moment.replace(tzinfo=None).isoformat(sep=" ")
    assert f"late  EMIT INSERTS\n  exact from {data['late']['exact_from']}\n" in text
    assert data["rows"]["exact_from"] is None
    assert "rows  EMIT INSERTS\n  not yet exact\n" in text
    assert data["plain"]["exact_from"] == "1970-01-01 00:01:39.000001"
    assert all("exact_from" not in data[name] for name in ("q1", "q2", "q3"))


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_a_query_that_failed_takes_no_part(sharing: str) -> None:
    engine = start(sharing, TRIO[:2])
    add(engine, "bad", "RANGE 9 SECONDS", "RANGE 9 SECONDS", "1 // a.id > 0")
    with pytest.raises(penstock.StoppedError):
        push(engine, 3)
    text, plan = engine.explain(analyze=True), plan_of(engine)
    assert plan["groups"][0]["queries"] == ["q1", "q2"]
    (join,) = (node for node in nodes(plan["queries"][2])[1:] if node["node"] == "WindowJoin")
    assert join["group"] is None
    assert "no longer runs" in text
    for name in ("q2", "q1"):
        engine.queries[name].drop()
        assert "stopped: Division by zero" in engine.explain()
    assert "groups" not in plan_of(engine)


def test_queries_come_go_and_change() -> None:
    """What is shown is what runs now, before any row has come and after."""
    for sharing in STRATEGIES:
        engine = start(sharing, TRIO)
        push(engine, 50)
        engine.execute("ALTER QUERY q3 SET WINDOW 1 MINUTE")
        engine.queries["q1"].drop()
        (group,) = plan_of(engine)["groups"]
        assert group["queries"] == ["q2", "q3"]
        assert [side["longest_window"] for side in group["sides"]] == ["1 MINUTE"] * 2
        engine.queries["q2"].drop()
        assert "groups" not in plan_of(engine)


# -- many -------------------------------------------------------------------------------------------------


def test_a_thousand_queries() -> None:
    """Few lines for the join they share, and no time to speak of."""
    asked = [(f"{10 + i % 100} SECONDS", f"a.value > {i / 1000}") for i in range(1_000)]
    engine = start("auto", asked)
    took = []
    for _ in range(2):
        began = time.perf_counter()
        text = engine.explain()
        took.append(time.perf_counter() - began)
    assert min(took) < 2.0
    shared = text[text.rindex("\nShared ") :]
    assert "  1,000 queries: q1, q2, q3, q4, ..." in shared
    assert shared.count("... 93 more slices ...") == 2
    assert "1,000: q1, q2, q3, q4, ...       a.value > 0.0\n" in shared, "thresholds come down to the lowest"
    assert len(shared.splitlines()) < 40
    assert max(map(len, shared.splitlines())) < 120
    (group,) = plan_of(engine)["groups"]
    assert [len(side["slices"]) for side in group["sides"]] == [100, 100]
    assert len(group["queries"]) == 1_000


def test_long_and_many_conditions_are_cut_short() -> None:
    asked = [
        (f"{i + 1} SECONDS", f"a.id = {i} AND a.value IN ({', '.join(map(str, range(60)))})")
        for i in range(9)
    ]
    engine = start("mem-opt", asked)
    shared = engine.explain()[engine.explain().rindex("\nShared ") :]
    assert "OR ... (9 conditions)" in shared
    assert max(map(len, shared.splitlines())) < 340
    assert plan_of(engine)["groups"][0]["sides"][0]["slices"][0]["conditions"] == 9


# -- selections -------------------------------------------------------------------------------------------


def compare(function: str, value: float) -> Expression:
    column = Column(SqlType.DOUBLE, 3, "v")
    return Call(SqlType.BOOLEAN, function, (column, Literal(SqlType.DOUBLE, value)))


def both(*parts: Expression) -> Expression:
    return Call(SqlType.BOOLEAN, "and", parts)


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ([], "no rows"),
        ([None], "all rows"),
        ([compare("greater", 3.0), None], "all rows"),
        ([compare("greater", 3.0), compare("greater", 1.0), compare("greater", 2.0)], "v > 1.0"),
        ([compare("greater", 1.0), compare("greater_equal", 1.0)], "v >= 1.0"),
        ([compare("less_equal", 1.0), compare("less", 2.0)], "v < 2.0"),
        ([compare("equal", 5.0), compare("greater", 3.0)], "v > 3.0"),
        ([compare("greater", 3.0), compare("equal", 3.0)], "v > 3.0 OR v = 3.0"),
        ([compare("greater", 3.0), both(compare("less", 9.0), compare("greater", 4.0))], "v > 3.0"),
        ([both(compare("less", 9.0), compare("greater", 4.0)), compare("greater", 3.0)], "v > 3.0"),
        (
            [both(compare("less", 9.0), compare("greater", 1.0)), compare("greater", 3.0)],
            "(v < 9.0 AND v > 1.0) OR v > 3.0",
        ),
        ([compare("greater", float("nan")), compare("greater", 3.0)], "v > 3.0"),
        (
            [compare("equal", float(i)) for i in range(5)],
            "v = 0.0 OR v = 1.0 OR v = 2.0 OR ... (5 conditions)",
        ),
    ],
)  # fmt: skip
def test_selection(predicates: list[Expression | None], expected: str) -> None:
    selection = Selection()
    for predicate in predicates:
        selection.add(predicate)
    assert str(selection) == expected
