"""Golden plans: what EXPLAIN says of queries whose results the logic tests check.

Each file of `plans/` names its case: `joins.test: equality join`. The case declares the streams and has the
queries; the file has the plan. Weights and rates are given, so that neither the machine nor the shipped
weights change a plan. Each query runs alone unless the file says `sharing auto` or another strategy.
PENSTOCK_REWRITE=1 writes the plans that came into the files, for review.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_logic import REWRITE, Case, Player, attempt, read_cases

import penstock
from penstock.optimizer.costs.weights import Weights

FOLDER = Path(__file__).parent
FILES = sorted((FOLDER / "plans").glob("*.txt"))
WEIGHTS = Weights(
    scan_search=1e-9, scan_update=2e-9, hash_search=1e-8, hash_update=5e-9, ttree_search=8e-9,
    ttree_update=9e-9, btree_search=7e-9, btree_update=1e-8, tree_walk=2e-9, pair=1e-8, row=3e-8,
    slice_row=6e-9, shelf_probe=4e-9, route=8e-10,
)  # fmt: skip
RULE = "----"


def case_of(path: Path) -> tuple[Case, dict[str, str]]:
    """The case a file names in its first line, and the options of the lines below, up to the rule."""
    first, *lines = path.read_text().splitlines()
    file, _, name = first.partition(": ")
    found = [case for case in read_cases(FOLDER / "logic" / file)[0] if case.name == name]
    assert found, f"{path.name}: no case `{name}` in {file}"
    head = lines[: lines.index(RULE)] if RULE in lines else lines
    return found[0], dict(line.split(" ", 1) for line in head if line)


def explained(path: Path) -> str:
    """The file as it should be: its head, then the plans of the case's queries."""
    case, options = case_of(path)
    engine = penstock.Engine(
        weights=WEIGHTS,
        index=options.get("index", "auto"),
        sharing=options.get("sharing", "unshared"),
        expiry=options.get("expiry", "auto"),
        modes=options.get("modes", "auto"),
        optimize=options.get("optimize", "exhaustive"),
    )
    player = Player("auto")
    player.engine = engine
    rates = [part.split("=") for part in options.get("rates", "").split()]
    for stream in (block for block in case.blocks if block.verb in ("stream", "table")):
        player.play(stream)
    for name, rate in rates:
        engine.set_rate(name, float(rate))
    for query in (block for block in case.blocks if block.verb == "query"):
        assert attempt(player, query, False) is None
    head = [line for line in path.read_text().split(RULE)[0].splitlines() if line]
    plan = engine.explain(json=options.get("format") == "json")
    return "\n".join([*head, RULE, plan]) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plan(path: Path) -> None:
    came = explained(path)
    if REWRITE:
        path.write_text(came)
    assert path.read_text() == came


def test_there_are_plans_of_every_kind() -> None:
    text = "".join(path.read_text() for path in FILES)
    for part in (
        "index scan",
        "index hash",
        "index t-tree",
        "index b+tree",
        "UnionAll",
        "Window [",
        "(every pair)",
        "Shared join",
        *(f"*  {name}" for name in ("pull-up", "push-down", "mem-opt", "cpu-opt", "chain")),
        "merges [",
        "strategy auto: ",
        *(
            f"─ {name}"
            for name in ("GroupBy", "Expire", "Lifetime", "LeftJoin", "SemiJoin", "Except", "Table t")
        ),
        "heard from negative rows",
        "heard from time-messages",
    ):
        assert part in text, part
    assert len(FILES) >= 10


def nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(below for part in node["inputs"] for below in nodes(part))]


def test_text_and_json_say_the_same() -> None:
    engine = penstock.Engine(weights=WEIGHTS)
    engine.execute("""
        CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT);
        CREATE QUERY q AS SELECT a.k FROM a [RANGE 3 SECONDS] JOIN b [ROWS 7] ON a.k = b.k WHERE a.k > 5;
        CREATE QUERY p AS SELECT k FROM a UNION ALL SELECT k + 1 FROM b;
    """)
    text, data = engine.explain(), json.loads(engine.explain(json=True))
    assert [query["query"] for query in data["queries"]] == ["q", "p"]
    for query in data["queries"]:
        assert f"{query['query']}  EMIT {query['emit'].upper()}" in text
        assert query["sql"] in engine.queries[query["query"]].sql
        for node in nodes(query)[1:]:
            if node["node"] == "JoinSide":
                title = f"{node['side']}: {node['stream']} [{node['window']}]  index {node['index']}"
                assert title in text
                assert min(node["costs"], key=node["costs"].__getitem__) == node["index"]
            elif node["node"] == "WindowJoin":
                assert f"WindowJoin {node['condition']}" in text


def test_analyze_says_what_was_measured() -> None:
    """Rows in, rows out and state of each operator are those of the input, counted by hand."""
    engine = penstock.Engine(weights=WEIGHTS)
    engine.execute("""
        CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT);
        CREATE QUERY q AS
          SELECT a.k FROM a [RANGE 10 us] JOIN b [RANGE 4 us] ON a.k = b.k WHERE a.k + b.k > 5;
        CREATE QUERY p AS SELECT k FROM a [ROWS 1] WHERE k <> 2;
    """)
    engine.push("a", {"ts": [0, 1, 2, 3], "k": [1, 2, 3, 3]})
    engine.push("b", {"ts": [1, 2, 3, 6], "k": [2, 3, 9, 3]})
    engine.advance(6)
    q, p = (nodes(query) for query in json.loads(engine.explain(analyze=True, json=True))["queries"])
    # Pairs of equal keys: (2, 2) at 1; (3, 3) at 2 and 3; b's row at 6 meets both 3s.
    # k + k > 5 keeps all but the first.
    select, join = q[1], q[2]
    assert (join["measured"]["rows_in"], join["measured"]["rows_out"]) == (8, 5)
    assert (select["measured"]["rows_in"], select["measured"]["rows_out"]) == (5, 4)
    assert q[0]["results"] == engine.queries["q"].count == 4
    # Alive at 6: all of a (until 10), of b those that came after 2.
    assert join["measured"]["state_rows"] == 4 + 2
    assert join["measured"]["state_bytes"] > 0
    chosen, window = p[1], p[2]
    assert "measured" not in window  # which rows enter it is asked in the select
    assert (chosen["measured"]["rows_in"], chosen["measured"]["rows_out"]) == (4, 3)
    text = engine.explain(analyze=True)
    assert "measured: 8 rows in, 5 out" in text
    assert "measured: 4 results" in text
    assert re.search(r"measured: state 6 rows, [\d,]+ bytes \(left 4, right 2\)", text)
    assert "measured" not in engine.explain()


def test_analyze_compares_rates_with_the_model() -> None:
    """With enough rows the measured rates stand beside what the model makes of them."""
    engine = penstock.Engine(weights=WEIGHTS)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT)")
    engine.query(
        "SELECT x.k FROM a [RANGE 1 SECOND] AS x JOIN a [RANGE 1 SECOND] AS y ON x.k = y.k", name="q"
    )
    rows = 4_000
    engine.push("a", {"ts": [i * 2_000 for i in range(rows)], "k": [i % 50 for i in range(rows)]})
    join = nodes(json.loads(engine.explain(analyze=True, json=True))["queries"][0])[2]
    assert join["node"] == "WindowJoin"
    assert join["measured"]["left_rate"] == pytest.approx(500, rel=0.01)
    assert join["measured"]["selectivity"] == pytest.approx(1 / 50, rel=0.05)
    assert join["measured"]["cost_cores_model"] > 0
    assert "rows/s" in engine.explain(analyze=True)


def test_explain_of_a_query_that_failed_says_so() -> None:
    engine = penstock.Engine(weights=WEIGHTS)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE QUERY q AS SELECT 1 // k AS x FROM a")
    with pytest.raises(penstock.StoppedError):
        engine.push("a", {"ts": [1], "k": [0]})
    assert "stopped: Division by zero" in engine.explain()
    assert "Division by zero" in json.loads(engine.explain(json=True))["queries"][0]["error"]
