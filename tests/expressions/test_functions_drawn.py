"""Drawn expressions against DuckDB, as values and as conditions, and against themselves on a cut batch."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import hypothesis.strategies as st
import numpy as np
from functions_oracle import COMPARISONS, FAILURES, RAISED, B, D, L, T, Table, V, connection, sql
from hypothesis import HealthCheck, given, settings
from nasty_values import BIGINT, BOOLEAN, DAY, DOUBLE, INF, INTERVAL, NAN, NASTY, TIMESTAMP, VARCHAR, moment

from penstock.engine.expressions.evaluate import evaluate_predicate, selected
from penstock.engine.expressions.expression import Call, Expression, Literal, columns_of, walk
from penstock.engine.expressions.functions import may_raise
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType

MIXED_ROWS = 25


@functools.cache
def mixed() -> Table:
    """Two columns of each type, nasty values in random company; small ones prevail so that not all fails."""
    random = np.random.default_rng(3)
    columns = []
    for type_, usual in (
        (BIGINT, [0, 1, 2, 3, -1, None]),
        (DOUBLE, [0.0, 1.0, -2.5, NAN, INF, None]),
        (BOOLEAN, [True, False, None]),
        (VARCHAR, ["", "a", "12", "-3.5", "x", None]),
        (TIMESTAMP, [0, 1, moment("2020-02-29T12:00:00"), None]),
    ):
        for share in (0.95, 0.6):
            pools = [usual if random.random() < share else NASTY[type_] for _ in range(MIXED_ROWS)]
            columns.append((type_, [pool[random.integers(len(pool))] for pool in pools]))
    return Table(columns)


# Without NULL: of a function that is NULL then, DuckDB's binder drops the other arguments, fail or not.
SMALL: dict[SqlType, list[Any]] = {
    BIGINT: [0, 1, -1, 2, 7, 2**63 - 1],
    DOUBLE: [0.0, -0.0, 1.0, 2.5, NAN, INF, -INF],
    BOOLEAN: [True, False],
    VARCHAR: ["", "a", "12", "%"],
    TIMESTAMP: [0, -1, 1_583_000_000_123_456],
}

UNITS = st.sampled_from(["hour", "week", "month"]).map(lambda name: Literal(VARCHAR, name))
SHIFTS = st.sampled_from([0, 1, -DAY, 10**15]).map(lambda us: Literal(INTERVAL, us))


def literals(type_: SqlType, values: Iterable[Any]) -> st.SearchStrategy[Expression]:
    return st.sampled_from([Literal(type_, value) for value in values])


# What a call of each type can be: names, and a type or a strategy for each argument.
TREES: dict[SqlType, list[tuple[str, tuple[Any, ...]]]] = {
    B: [
        ("add subtract multiply integer_divide modulo", (B, B)),
        ("negate abs", (B,)),
        *(("cast", (of,)) for of in (D, L, V)),
        ("length", (V,)),
        ("year second day_of_week", (T,)),
    ],
    D: [
        ("add subtract multiply divide modulo", (D, D)),
        ("negate abs round floor sqrt ln", (D,)),
        *(("cast", (of,)) for of in (B, L, V)),
        ("epoch", (T,)),
    ],
    L: [
        ("and or", (L, L)),
        ("and or", (L, L, L)),
        ("not", (L,)),
        *(("is_null", (of,)) for of in SMALL),
        *((" ".join(COMPARISONS), (of, of)) for of in SMALL),
        *(("in", (of, of, literals(of, [None, *SMALL[of]]))) for of in SMALL),
        ("like contains", (V, literals(V, SMALL[V]))),
    ],
    # No cast of DOUBLE: DuckDB writes the sign of a nan, which depends on how it came about.
    V: [("concat concat_operator", (V, V)), *(("cast", (of,)) for of in (B, L, T)), ("upper trim", (V,))],
    T: [("date_trunc", (UNITS, T)), ("add subtract", (T, SHIFTS))],
}

for type_, trees in TREES.items():
    null = literals(type_, [None])
    trees += [
        ("case", (L, type_, type_)),
        ("case", (L, type_, null)),
        ("case", (L, null, L, type_, type_)),
        ("coalesce nullif", (type_, type_)),
        ("coalesce greatest least", (type_, type_, type_)),
    ]


@st.composite
def expressions(draw: st.DrawFn, type_: SqlType | None = None, depth: int = 4) -> Expression:
    """An expression over the columns of `mixed`, at most `depth` calls deep."""
    type_ = draw(st.sampled_from(list(SMALL))) if type_ is None else type_
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        columns = [column for column in mixed().columns if column.type is type_]
        return draw(st.one_of(st.sampled_from(columns), literals(type_, SMALL[type_])))
    names, parameters = draw(st.sampled_from(TREES[type_]))
    arguments = [
        draw(expressions(parameter, depth - 1) if isinstance(parameter, SqlType) else parameter)
        for parameter in parameters
    ]
    name = draw(st.sampled_from(names.split()))
    if name == "negate" and not columns_of(arguments[0]):
        name = "abs"  # DuckDB's binder computes a negated constant, and fails even if no row needs it
    return Call(type_, name, tuple(arguments))


DRAWN = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def is_lazier(expression: Expression) -> bool:
    """Whether DuckDB may fail where we do not: it evaluates all of an AND and OR that is not a condition."""
    connectives = [
        node for node in walk(expression) if isinstance(node, Call) and node.function in ("and", "or")
    ]
    return any(may_raise(node) for node in connectives)


@DRAWN
@given(expressions())
def test_drawn_expression_oracle(expression: Expression) -> None:
    """Both fail on the batch or none does; rows on which none does have the same value.

    Beside an argument that is NULL on all rows DuckDB does not look at the others, fail or not: on a single
    row it is no measure of failing.
    """
    ours, theirs = mixed().ours(expression), mixed().theirs([expression])[0]
    if RAISED in ours:
        parts = (node for node in walk(expression) if RAISED not in theirs)
        assert RAISED in theirs or any(set(mixed().ours(part)) == {None} for part in parts), sql(expression)
    elif RAISED in theirs:
        assert is_lazier(expression), sql(expression)
    pairs = [(our, our if RAISED in (our, their) else their) for our, their in zip(ours, theirs, strict=True)]
    mixed().compare(expression, *map(list, zip(*pairs, strict=True)))


@DRAWN
@given(expressions(BOOLEAN))
def test_drawn_predicate_oracle(predicate: Expression) -> None:
    """What WHERE keeps. DuckDB may fail where we do not: it takes the parts of an AND as they are written."""
    table = mixed()
    try:
        query = f"SELECT id FROM {table.name} WHERE {sql(predicate)} ORDER BY id"
        theirs = [row for (row,) in connection().execute(query).fetchall()]
    except FAILURES:
        return
    try:
        mask = evaluate_predicate(predicate, table.arrays.__getitem__, table.length)
    except DataError:
        # See above; which rows DuckDB looks at together is not known here.
        assert any(None in table.ours(part) for part in walk(predicate)), sql(predicate)
    else:
        assert selected(mask).tolist() == theirs, sql(predicate)


@DRAWN
@given(expressions(), st.integers(0, MIXED_ROWS))
def test_drawn_expression_in_parts(expression: Expression, cut: int) -> None:
    """A batch cut in two gives the same values, and fails if and only if one of the parts does."""
    table = mixed()

    def outcome(start: int, length: int) -> list[Any] | str:
        try:
            return table.values(expression, start, length)
        except DataError:
            return RAISED

    whole, first, second = outcome(0, MIXED_ROWS), outcome(0, cut), outcome(cut, MIXED_ROWS - cut)
    if whole == RAISED:
        assert RAISED in (first, second)
    else:
        assert isinstance(first, list)
        assert isinstance(second, list)
        assert whole == first + second
