"""Short texts that would take for ever to plan: each is planned with little work, or refused by name.

Work is counted, not timed: how many orders of a join are compared, how many nodes a plan has.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable

import pytest

import penstock
from penstock.engine.expressions.expression import Call
from penstock.engine.plan.plan import CommonManyJoin, MemberNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.engine.rows.errors import UnsupportedError
from penstock.optimizer.share import share_joins
from penstock.optimizer.share.order_sides import order_sides

WINDOW = "[RANGE 5 SECONDS]"


def make_engine() -> penstock.Engine:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE, ok BOOLEAN)")
    return engine


def self_join(number: int, condition: str = "a{0}.k = a{1}.k") -> str:
    joins = "".join(f" JOIN s {WINDOW} AS a{i} ON {condition.format(i - 1, i)}" for i in range(1, number))
    return f"SELECT COUNT(*) FROM s {WINDOW} AS a0{joins}"


# ------------------------------------------------------------------------------ a stream joined to itself


@pytest.mark.parametrize(
    "condition", ["a{0}.k = a{1}.k", "a{0}.v < a{1}.v", "a{0}.k = a{1}.k AND a0.v < a{1}.v"]
)
@pytest.mark.parametrize("number", [12, 32])
def test_a_stream_joined_to_itself_has_few_orders(
    number: int, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = 0

    def counted(*arguments: object) -> object:
        nonlocal orders
        for order in order_sides(*arguments):  # type: ignore[arg-type]
            orders += 1
            yield order

    monkeypatch.setattr(share_joins, "order_sides", counted)
    engine = make_engine()
    assert engine._plan(bound(engine, self_join(number, condition)), False, "q")
    assert orders == 1


def bound(engine: penstock.Engine, sql: str) -> object:
    from penstock.optimizer.bind.bind import bind_query
    from penstock.optimizer.read.parse import parse_query

    return bind_query(parse_query(sql), engine._catalog)


def test_a_join_of_very_many_streams_is_made_two_by_two() -> None:
    engine = make_engine()
    for number, is_one in ((32, True), (33, False), (101, False)):
        plan = engine._plan(bound(engine, self_join(number)), False, "q").node
        many = [
            node
            for node in plan_nodes(plan)
            if isinstance(node, MemberNode) and isinstance(node.common, CommonManyJoin)
        ]
        assert bool(many) is is_one


Structure = tuple[list[str], list[list[int]], list[tuple[int, int, str, str]]]


def form(structure: Structure, order: list[int]) -> object:
    """The structure as it reads in this order, whatever its sides and variables were called."""
    names, variables, links = structure
    known: dict[int, int] = {}
    read = [tuple(known.setdefault(v, len(known)) for v in variables[side]) for side in order]
    both = [pair for a, b, x, y in links for pair in ((known[a], known[b], x, y), (known[b], known[a], y, x))]
    return [names[side] for side in order], read, sorted(both)


def best(structure: Structure) -> object:
    return min(form(structure, order) for order in order_sides(*structure))  # type: ignore[type-var]


def drawn_structure(random_: random.Random) -> Structure:
    number = random_.randint(2, 6)
    variables = [[random_.randrange(4) for _ in range(random_.randint(1, 2))] for _ in range(number)]
    names = [f"{random_.choice(['s', 's', 't'])}{len(own)}" for own in variables]
    used = sorted({variable for own in variables for variable in own})
    links = []
    for _ in range(random_.randint(0, 3)):
        if len(used) > 1:
            left, right = random_.sample(used, 2)
            links.append((left, right, *random_.choice([("<", ">"), (">", "<"), ("~", "~")])))
    return names, variables, list(dict.fromkeys(links))


def test_the_normal_form_does_not_depend_on_how_it_was_written() -> None:
    random_ = random.Random(5)
    for _ in range(400):
        names, variables, links = structure = drawn_structure(random_)
        sides = list(range(len(names)))
        random_.shuffle(sides)
        renamed = list(range(10))
        random_.shuffle(renamed)
        again = (
            [names[side] for side in sides],
            [[renamed[v] for v in variables[side]] for side in sides],
            [(renamed[b], renamed[a], y, x) for a, b, x, y in random_.sample(links, len(links))],
        )
        assert best(structure) == best(again), structure


def test_only_what_is_the_same_join_has_one_form() -> None:
    """Two structures with one form are one by some renaming: found by trying all."""
    random_ = random.Random(6)
    for _ in range(200):
        one, two = drawn_structure(random_), drawn_structure(random_)
        if sorted(one[0]) != sorted(two[0]) or len(one[0]) > 5:
            continue
        forms = [form(two, list(order)) for order in itertools.permutations(range(len(two[0])))]
        order = next(iter(order_sides(*one)))
        assert (best(one) == best(two)) == (form(one, order) in forms)


@pytest.mark.parametrize(
    ("variables", "orders"),
    [([[0]] * 12, 1), ([[i, (i + 1) % 12] for i in range(12)], 12), ([[i] for i in range(12)], 1)],
    ids=["one key", "ring", "apart"],
)
def test_sides_that_can_be_swapped_are_tried_once(variables: list[list[int]], orders: int) -> None:
    assert len(list(order_sides(["s"] * 12, variables, []))) == orders


# --------------------------------------------------------------------------------- refused, or planned


def doubling(number: int, step: str, first: str = f"SELECT k, v FROM s {WINDOW}") -> str:
    queries = ", ".join(f"x{i} AS ({step.format(i - 1)})" for i in range(1, number + 1))
    return f"WITH x0 AS ({first}), {queries} SELECT * FROM x{number}"


TOO_MUCH = {
    "joins": (
        doubling(7, "SELECT a.k, a.v FROM x{0} AS a JOIN x{0} AS b ON a.k = b.k"),
        "Expected at most 100 joins in one query, found 127 with WITH written out",
    ),
    "joins 19": (
        doubling(19, "SELECT a.k FROM x{0} AS a JOIN x{0} AS b ON a.k = b.k"),
        "More than 1000 references",
    ),
    "unions": (
        doubling(19, "SELECT k, v FROM x{0} UNION ALL SELECT k, v FROM x{0}"),
        "More than 1000 references",
    ),
    "differences": (
        doubling(19, "SELECT k FROM x{0} EXCEPT SELECT k FROM x{0}"),
        "More than 1000 references",
    ),
    "sums": (doubling(19, "SELECT v + v AS v FROM x{0}"), "More than 100000 expressions in a query"),
    "sums in WHERE": (
        doubling(19, "SELECT v + v AS v FROM x{0} WHERE v > 1"),
        "More than 100000 expressions",
    ),
    "sums over a join": (
        doubling(
            19,
            "SELECT v + v AS v FROM x{0}",
            f"SELECT a.v FROM s {WINDOW} AS a JOIN s {WINDOW} AS b ON a.k = b.k",
        ),
        "More than 100000 expressions",
    ),
    "stars": (doubling(19, "SELECT *, * FROM x{0}"), "More than 100000 columns"),
    "deep": (
        doubling(190, "SELECT abs(v) AS v FROM x{0}"),
        "An expression more than 150 deep, with sub-queries",
    ),
    "values": (
        f"SELECT k FROM s WHERE k IN ({', '.join(map(str, range(30_000)))})",
        "Expected at most 50000 words",
    ),
    "alternatives": (
        "SELECT k FROM s WHERE " + " OR ".join(["k = 1"] * 15_000),
        "Expected at most 50000 words",
    ),
    "many unions": (" UNION ALL ".join(["SELECT k FROM s"] * 10_000), "Expected at most 50000 words"),
    "a thousand unions": (" UNION ALL ".join(["SELECT k FROM s"] * 1_001), "More than 1000 references"),
    "columns": (
        "CREATE STREAM w (ts TIMESTAMP" + ", a BIGINT" * 20_000 + ")",
        "Expected at most 50000 words",
    ),
    "brackets": (
        "SELECT " + "(" * 5_000 + "k" + ")" * 5_000 + " FROM s",
        "Expected at most 32 nested brackets",
    ),
    "minus": ("SELECT " + "- " * 5_000 + "k FROM s", "Expected a query less deeply nested"),
    "not": ("SELECT k FROM s WHERE " + "NOT " * 5_000 + "ok", "Expected a query less deeply nested"),
    "plus": ("SELECT " + "+".join(["k"] * 5_000) + " FROM s", "An expression more than 150 deep"),
    "case": (
        "SELECT " + "CASE WHEN ok THEN " * 2_000 + "1" + " END" * 2_000 + " FROM s",
        "Expected a query less deeply",
    ),
    "sub-queries": (
        "SELECT * FROM " + "(SELECT * FROM " * 40 + "s" + ") AS x" * 40,
        "Expected at most 32 nested brackets",
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_refused_by_name(name: str) -> None:
    sql, message = TOO_MUCH[name]
    engine = make_engine()
    with pytest.raises(UnsupportedError) as caught:
        (engine.execute if sql.startswith("CREATE") else engine.query)(sql)
    assert str(caught.value).startswith(message)


ENOUGH = {
    "joins": (doubling(6, "SELECT a.k, a.v FROM x{0} AS a JOIN x{0} AS b ON a.k = b.k"), 400),
    "unions": (doubling(8, "SELECT k, v FROM x{0} UNION ALL SELECT k, v FROM x{0}"), 2_000),
    "differences": (doubling(6, "SELECT k FROM x{0} EXCEPT SELECT k FROM x{0}"), 1_000),
    "sums": (doubling(12, "SELECT v + v AS v FROM x{0}"), 10),
    "values": (f"SELECT k FROM s {WINDOW} WHERE k IN ({', '.join(map(str, range(5_000)))})", 10),
    "alternatives": (f"SELECT k FROM s {WINDOW} WHERE " + " OR ".join(f"k = {i}" for i in range(2_000)), 10),
    "conditions": (
        f"SELECT a.k FROM s {WINDOW} AS a JOIN s {WINDOW} AS b ON "
        + " AND ".join(f"a.k + {i} = b.k" for i in range(300)),
        10,
    ),
    "branches": (
        f"SELECT k FROM s {WINDOW} WHERE CASE "
        + " ".join(f"WHEN k = {i} THEN ok" for i in range(600))
        + " END",
        10,
    ),
    "chain": (doubling(90, "SELECT k, v FROM x{0} WHERE k > {0}"), 10),
    "left joins": (self_join(60).replace("JOIN", "LEFT JOIN"), 400),
    "differences in a row": (" EXCEPT ALL ".join([f"SELECT k FROM s {WINDOW}"] * 150), 1_000),
}


@pytest.mark.parametrize("tail", ["", " HOP BY 1 SECOND"], ids=["", "hop"])
@pytest.mark.parametrize("name", ENOUGH)
def test_what_is_within_the_limits_is_planned_and_run(name: str, tail: str) -> None:
    sql, most = ENOUGH[name]
    engine = make_engine()
    query = engine.query(sql + tail)
    assert sum(1 for _ in plan_nodes(query._pipeline.plan)) <= most
    engine.push("s", {"ts": [1_000_000], "k": [1], "v": [1.0], "ok": [True]})
    engine.close()


@pytest.mark.parametrize("connective", ["AND", "OR"])
def test_conditions_are_not_compared_each_with_each(connective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many take about twice the work."""
    compared = 0
    equal = Call.__eq__

    def counted(one: Call, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(one, other)

    monkeypatch.setattr(Call, "__eq__", counted)
    work = []
    for number in (1_000, 2_000):
        engine, compared = make_engine(), 0
        parts = f" {connective} ".join(f"k + {i} <> v" for i in range(number))
        assert engine._plan(bound(engine, f"SELECT k FROM s {WINDOW} WHERE {parts}"), False, "q")
        work.append(compared)
    assert work[1] < 3 * work[0]


def test_a_recursion_error_never_comes_out() -> None:
    """Whatever is left of the stack: a query is refused, or it is planned."""

    def deeper(frames: int, action: Callable[[], object]) -> object:
        return action() if frames == 0 else deeper(frames - 1, action)

    engine = make_engine()
    sql = "SELECT " + "abs(" * 30 + "+".join(["k"] * 100) + ")" * 30 + " AS k FROM s"
    here = len(list(iter_frames()))
    refused = planned = 0
    for frames in range(0, sys.getrecursionlimit() - here - 150, 60):

        def plan() -> object:
            return engine._plan(bound(engine, sql), False, "q")

        try:
            deeper(frames, plan)
            planned += 1
        except UnsupportedError:
            refused += 1
    assert refused
    assert planned


def iter_frames() -> object:
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]
