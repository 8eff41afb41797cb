"""Join orders and places of differences: the search against every plan there is, and against DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import duckdb
import pytest
from hopping_help import bind, fill, price, weights
from hypothesis import given, settings
from hypothesis import strategies as st
from logical_sql import answer
from test_assign_modes import every_assignment

from penstock.bench.hopping_plans import compare_searches
from penstock.bench.random_plans import random_prices, random_query
from penstock.engine.expressions.expression import columns_of, conjunction, move_columns
from penstock.optimizer.costs.weights import SHIPPED, read
from penstock.optimizer.hopping.assign_modes import Pricer
from penstock.optimizer.hopping.optimize_hopping import (
    Search,
    Strategy,
    optimize_hopping,
    sets_below,
    strategy_of,
)
from penstock.optimizer.plan.write_shape import write_shape
from penstock.optimizer.rewrite.difference_rules import factor_difference, pull_difference
from penstock.optimizer.rewrite.join_graph import JoinGraph, read_graph
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Position,
    Project,
    Query,
    SetOperation,
    inputs_of,
    nodes_of,
)

CON = duckdb.connect()
CON.execute("SET threads = 1")
Built = tuple[Node, tuple[int, ...]]


def every_plan(node: Node, sets: bool = False) -> Iterator[Node]:
    """Each tree that the rules lead to, built without a thought for what it costs."""
    graph = read_graph(node)
    if graph is not None:
        inner = frozenset(graph.joined)
        for plan, columns in every_join(graph, inner, frozenset(graph.matches), sets):
            places = {column: place for place, column in enumerate(columns)}
            outputs = tuple(move_columns(one, places.__getitem__) for one in graph.cluster.outputs)
            yield Project(plan, outputs, node.fields)
        return
    below = [list(every_plan(p, s)) for p, s in zip(inputs_of(node), sets_below(node, sets), strict=True)]
    match node:
        case SetOperation():
            yield from (replace(node, left=one, right=two) for one in below[0] for two in below[1])
            factored = factor_difference(node, sets)
            if factored is not None:
                yield from every_plan(factored, sets)
        case Join():
            yield from (replace(node, left=one, right=two) for one in below[0] for two in below[1])
        case Filter() | Project() | Distinct() | Aggregate():
            yield from (replace(node, input=one) for one in below[0])
        case _:
            yield node


def every_join(
    graph: JoinGraph, inner: frozenset[int], matches: frozenset[int], sets: bool
) -> Iterator[Built]:
    """Each way to join these inputs and to apply these semi and anti joins."""
    cluster = graph.cluster
    if len(inner) == 1 and not matches:
        item = next(iter(inner))
        yield from ((plan, tuple(cluster.columns(item))) for plan in every_plan(cluster.items[item], sets))
        return
    for item in matches:
        if graph.needs(item) <= inner:
            for left, columns in every_join(graph, inner, matches - {item}, sets):
                for right in every_plan(cluster.items[item], True):
                    match = graph.matches[item]
                    places = index([*columns, *cluster.columns(item)])
                    parts = tuple(move_columns(p, places.__getitem__) for p in match.conditions)
                    yield Join(match.kind, left, right, conjunction(parts), match.position), columns
    first = min(inner)
    for one in subsets(inner - {first}):
        lefts, rights = one | {first}, inner - one - {first}
        if not rights:
            continue
        for some in subsets(matches):
            others = matches - some
            if all(graph.needs(i) <= lefts for i in some) and all(graph.needs(i) <= rights for i in others):
                for left, left_columns in every_join(graph, lefts, some, sets):
                    for right, right_columns in every_join(graph, rights, others, sets):
                        columns = (*left_columns, *right_columns)
                        condition = between(graph, left_columns, right_columns)
                        yield Join("inner", left, right, condition, cluster.position), columns
    for item in inner:
        if len(inner) > 1 and not any(item in graph.needs(i) for i in matches):
            others_plan, columns = next(every_join_unsolved(graph, inner - {item}, matches))
            own = tuple(cluster.columns(item))
            condition = between(graph, own, columns)
            join = Join("inner", cluster.items[item], others_plan, condition, cluster.position)
            pulled = pull_difference(join, sets)
            if pulled is not None:
                for left in every_plan(pulled.left, not pulled.all):
                    for right in every_plan(pulled.right, not pulled.all):
                        yield replace(pulled, left=left, right=right), (*own, *columns)


def every_join_unsolved(graph: JoinGraph, inner: frozenset[int], matches: frozenset[int]) -> Iterator[Built]:
    """The inputs joined from left to right, as they stand."""
    cluster = graph.cluster
    node: Node | None = None
    columns: tuple[int, ...] = ()
    for item in sorted(inner):
        own = tuple(cluster.columns(item))
        if node is None:
            node = cluster.items[item]
        else:
            condition = between(graph, columns, own)
            node = Join("inner", node, cluster.items[item], condition, cluster.position)
        columns += own
    assert node is not None
    for item in sorted(matches):
        match, places = graph.matches[item], index([*columns, *cluster.columns(item)])
        parts = tuple(move_columns(p, places.__getitem__) for p in match.conditions)
        node = Join(match.kind, node, cluster.items[item], conjunction(parts), match.position)
    yield node, columns


def between(graph: JoinGraph, lefts: tuple[int, ...], rights: tuple[int, ...]):  # type: ignore[no-untyped-def]
    """What is joined on."""
    places, one, two = index([*lefts, *rights]), set(lefts), set(rights)
    return conjunction(
        tuple(
            move_columns(part, places.__getitem__)
            for part in graph.cluster.conditions
            if columns_of(part) <= one | two and columns_of(part) & one and columns_of(part) & two
        )
    )


def index(columns: list[int]) -> dict[int, int]:
    return {column: place for place, column in enumerate(columns)}


def subsets(items: frozenset[int]) -> Iterator[frozenset[int]]:
    listed = sorted(items)
    for mask in range(1 << len(listed)):
        yield frozenset(one for place, one in enumerate(listed) if mask >> place & 1)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 3), weights())
def test_search_finds_the_cheapest_of_all_plans(random: Random, operators: int, machine) -> None:  # type: ignore[no-untyped-def]
    query = random_query(random, operators)
    check_search(query, random_prices(random, query, machine))


COMMON = (
    "SELECT p.k, p.v, r.v AS z FROM {a} AS p JOIN {c} AS r ON p.k = r.k "
    "{word} SELECT q.k, q.v, r.v AS z FROM {b} AS q JOIN {c} AS r ON q.k = r.k"
)
ABOVE = {
    "nothing": "{below}",
    "a join": "SELECT m.k, d.v FROM ({below}) AS m JOIN d ON m.k = d.k",
    "a join of sets": "SELECT DISTINCT m.k, d.v FROM ({below}) AS m JOIN d ON m.z = d.k",
    "groups": "SELECT m.k, COUNT(*) AS n FROM ({below}) AS m GROUP BY m.k",
    "an anti join": "SELECT k, v FROM ({below}) AS m WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = m.k)",
}


@pytest.mark.parametrize("above", ABOVE)
@settings(max_examples=15, deadline=None)
@given(st.data(), st.randoms(use_true_random=False), weights())
def test_search_where_both_sides_of_a_difference_are_joined_with_the_same(
    above: str,
    data: st.DataObject,
    random: Random,
    machine,  # type: ignore[no-untyped-def]
) -> None:
    sizes, word = st.sampled_from([5, 10, 40]), data.draw(st.sampled_from(["EXCEPT", "EXCEPT ALL"]))
    streams = {name: f"{name} [RANGE {data.draw(sizes)} SECONDS]" for name in "abc"}
    below = COMMON.format(word=word, **streams)
    text = ABOVE[above].format(below=below)
    window = "WINDOW 10 SECONDS " if " d" in text else ""
    query = bind(text, f"{window}HOP BY 5 SECONDS")
    check_search(query, random_prices(random, query, machine))


def check_search(query: Query, pricer: Pricer) -> None:
    """It finds the cheapest of all plans, and all are said to give the same, whatever moves where."""
    best: dict[str, float] = {}
    given_by = pricer.flow(query.root)
    for plan in every_plan(query.root):
        flow = pricer.flow(plan)
        assert flow.rows == pytest.approx(given_by.rows, rel=1e-9), write_shape(plan)
        assert flow.changed == pytest.approx(given_by.changed, rel=1e-6), write_shape(plan)
        for form, cost, _ in every_assignment(plan, pricer):
            best[form] = min(cost, best.get(form, cost))
    for form, found in Search(pricer, "exhaustive").best(query.root).items():
        assert found.cost == pytest.approx(best[form], rel=1e-9), write_shape(found.node)


def test_search_with_a_difference_whose_keys_differ_in_number() -> None:
    """Of b many rows are joined with one of c, of a few: b is not longer against a for that."""
    query = bind(
        "SELECT d.k, c.v FROM (SELECT k, v FROM a EXCEPT ALL SELECT k, v FROM b) AS d JOIN c USING (k)"
    )
    keys = {("a", "k"): 1e5, ("b", "k"): 1.0, ("c", "k"): 10.0}
    check_search(query, price(query, keys=keys, remains=dict.fromkeys(differences(query), 0.05)))


def differences(query: Query) -> list[Position]:
    return [one.position for one in nodes_of(query.root) if isinstance(one, SetOperation)]


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), weights())
def test_orders_of_four_joins(random: Random, machine) -> None:  # type: ignore[no-untyped-def]
    """Bushy orders of five streams: every tree is priced, with the cheapest modes for it."""
    query = random_query(random, 4, joins_only=True)
    pricer = random_prices(random, query, machine)
    from penstock.optimizer.hopping.assign_modes import assign_modes

    best = min(assign_modes(plan, pricer, "complete").cost for plan in every_plan(query.root))
    assert Search(pricer, "exhaustive").best(query.root)["complete"].cost == pytest.approx(best, rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.randoms(use_true_random=False), weights())
def test_plans_answer_the_same_oracle(data: st.DataObject, random: Random, machine) -> None:  # type: ignore[no-untyped-def]
    query = random_query(random, random.randint(1, 5))
    pricer = random_prices(random, query, machine)
    strategy: Strategy = data.draw(st.sampled_from(["exhaustive", "heuristic", "none"]))
    plan = optimize_hopping(query, pricer, strategy)
    assert [one.type for one in plan.query.fields] == [one.type for one in query.fields]
    assert [one.name for one in plan.query.fields] == [one.name for one in query.fields]
    with CON.cursor() as con:
        fill(con, data.draw)
        assert answer(con, plan.query.root) == answer(con, query.root), write_shape(plan.query.root)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), weights())
def test_stronger_searches_cost_no_more(random: Random, machine) -> None:  # type: ignore[no-untyped-def]
    query = random_query(random, random.randint(1, 7))
    pricer = random_prices(random, query, machine)
    costs = []
    for strategy in ("exhaustive", "heuristic"):
        found = Search(pricer, strategy).best(query.root)["complete"]
        costs.append(found.cost)
        assert every_node_once(optimize_hopping(query, pricer, strategy).query.root)
    assert costs[0] <= costs[1] * (1 + 1e-9)
    assert costs[0] <= Search(pricer, "none").best(query.root)["complete"].cost * (1 + 1e-9)


def every_node_once(root: Node) -> bool:
    nodes = list(nodes_of(root))
    return len({id(one) for one in nodes}) == len(nodes)


def test_heuristic_finds_the_optimum_as_a_rule() -> None:
    """Of a hundred plans; `python -m penstock.bench.hopping_plans` says it of a thousand."""
    assert compare_searches(100, read(SHIPPED))["heuristic"].same >= 0.95


def test_an_anti_join_goes_below_a_join_that_makes_many_rows_of_one() -> None:
    """Over changes, which cost it much more than whole answers do."""
    sql = "SELECT a.k, c.v FROM a JOIN c ON a.k = c.k WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.v = a.v)"
    query = bind(sql)
    few = {(stream, "k"): 10.0 for stream in "ac"}
    many = {(stream, "k"): 1e6 for stream in "ac"}
    found = {}
    for name, keys in (("few", few), ("many", many)):
        pricer = price(query, keys=keys)
        pricer.costs.only = "delta"
        for strategy in ("exhaustive", "none"):
            plan = optimize_hopping(query, pricer, strategy_of(strategy))
            found[name, strategy] = write_shape(plan.query.root)
    assert found["few", "exhaustive"] == "((a ANTI b) JOIN c)"
    assert found["many", "exhaustive"] == "((a JOIN c) ANTI b)"
    assert found["few", "none"] == "((a JOIN c) ANTI b)"


def test_other_orders_are_shown_by_what_the_whole_plan_would_cost() -> None:
    """Not up to the join alone; so none is cheaper than what runs."""
    sql = "SELECT a.k, COUNT(*) AS n FROM a JOIN b ON a.k = b.k JOIN c ON b.v = c.v GROUP BY a.k"
    query = bind(sql)
    pricer = price(query, keys={("a", "k"): 1.0, ("b", "k"): 1.0, ("c", "v"): 50.0, ("b", "v"): 50.0})
    plan = optimize_hopping(query, pricer, "exhaustive")
    assert plan.orders and all(cost >= plan.chosen.cost for _, cost in plan.orders)
    assert any(cost == pytest.approx(cost_of_order(query.root, pricer, text)) for text, cost in plan.orders)


def cost_of_order(root: Node, pricer: Pricer, text: str) -> float:
    """The cheapest plan that has its joins in this order."""
    plans = [one for one in every_plan(root) if text in write_shape(one)]
    return min(cost for one in plans for form, cost, _ in every_assignment(one, pricer) if form == "complete")


def test_too_many_inputs_are_left_to_the_heuristic() -> None:
    joins = " ".join(f"JOIN b AS b{i} ON b{i}.k = a.k" for i in range(9))
    query = bind(f"SELECT a.k FROM a {joins}")
    plan = optimize_hopping(query, price(query), "exhaustive")
    assert plan.strategy == "heuristic"
    assert plan.note == "exhaustive is for 8 inputs at most, here are 10"
    more = " ".join(f"JOIN b AS b{i} ON b{i}.k = a.k" for i in range(14))
    query = bind(f"SELECT a.k FROM a {more}")
    assert optimize_hopping(query, price(query), "heuristic").chosen.cost > 0  # in the order they are written


def test_a_difference_that_may_fail_stays_where_it_is() -> None:
    """What NOT EXISTS keeps away from a division stays away from it."""
    sql = "SELECT a.k FROM a JOIN c ON a.k // a.v = c.k WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.v = a.v)"
    query = bind(sql)
    for strategy in ("exhaustive", "heuristic", "none"):
        found = write_shape(optimize_hopping(query, price(query), strategy).query.root)
        assert found == "((a JOIN c) ANTI t)"
