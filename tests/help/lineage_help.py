"""Rows and predicates for tests of lineage, drawn or written, and the meaning of their tags.

The measure is `evaluate_predicate`; of a predicate that could fail one row at a time: true, not, or raised.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from nasty_values import BIGINT, BOOLEAN, DOUBLE, INF, NAN, NASTY, TIMESTAMP, VARCHAR

from penstock.engine.expressions.evaluate import evaluate_predicate
from penstock.engine.expressions.expression import Call, Column, Expression, Literal, conjunction
from penstock.engine.expressions.functions import may_raise
from penstock.engine.members.lineage import Demand, Failure, Lineage, Tags, split
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.optimizer.bind.bind import bind_query, bind_relation
from penstock.optimizer.bind.catalog import Catalog
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.tree.logical import Project

NAMES = {"a": BIGINT, "b": BIGINT, "x": DOUBLE, "s": VARCHAR, "f": BOOLEAN, "ts": TIMESTAMP}
TYPES = list(NAMES.values())
A, B, X, S, F, T = (Column(type_, i, name) for i, (name, type_) in enumerate(NAMES.items()))

# Few, so that rows hit the constants.
USUAL: dict[SqlType, list[Any]] = {
    BIGINT: [0, 1, 2, 3, -1, 2**53 + 1, 2**63 - 1, -(2**63), None],
    DOUBLE: [0.0, -0.0, 1.0, 1.5, 2.0, NAN, INF, -INF, 2.0**53, 5e-324, None],
    VARCHAR: ["", "a", "ab", "12", "ä", None],
    BOOLEAN: [True, False, None],
    TIMESTAMP: [0, 1, -1, 1_583_000_000_123_456, None],
}

RAISED = "raised"
Columns = Sequence[pa.Array]


@functools.cache
def catalog() -> Catalog:
    columns = ", ".join(f"{name} {type_}" for name, type_ in NAMES.items())
    (statement,) = parse_script(f"CREATE STREAM r ({columns})")
    declared = Catalog()
    declared.add(bind_relation(statement))  # type: ignore[arg-type]
    return declared


@functools.cache
def where(text: str) -> Expression:
    """The condition as the binder writes it."""
    root = bind_query(parse_query(f"SELECT {text} AS answer FROM r"), catalog()).root
    assert isinstance(root, Project)
    return root.expressions[0]


def table(*rows: tuple[Any, ...]) -> list[pa.Array]:
    """The rows as columns, each a slice that does not start at its array's first value."""
    values = zip(*rows, strict=True) if rows else [()] * len(TYPES)
    junk = [next(value for value in USUAL[type_] if value is not None) for type_ in TYPES]
    return [
        pa.array([other, other, other, *column], ARROW_TYPES[type_]).slice(3)
        for other, type_, column in zip(junk, TYPES, values, strict=True)
    ]


def row(**values: Any) -> tuple[Any, ...]:
    return tuple(values.get(name) for name in NAMES)


def satisfied(tags: Tags, demand: Demand) -> list[bool]:
    """What kernels that use tags do, for every row."""
    inside = (tags.leaves >= demand.low[:, None]) & (tags.leaves <= demand.high[:, None])
    has_bits = (tags.words & demand.bits[:, None]) == demand.bits[:, None]
    return [bool(answer) for answer in inside.all(axis=0) & has_bits.all(axis=0)]


def outcome(predicate: Expression, columns: Columns, at: int) -> bool | tuple[str, str]:
    try:
        mask = evaluate_predicate(predicate, lambda i: columns[i].slice(at, 1), 1)
    except DataError as error:
        return RAISED, str(error)
    return mask[0].as_py() is True


def outcomes(predicate: Expression | None, columns: Columns) -> list[Any]:
    length = len(columns[0])
    if predicate is None:
        return [True] * length
    if may_raise(predicate):
        return [outcome(predicate, columns, at) for at in range(length)]
    mask = evaluate_predicate(predicate, columns.__getitem__, length)
    return [answer is True for answer in mask.to_pylist()]


def check_shape(lineage: Lineage, tags: Tags, length: int) -> None:
    count = len(lineage.dimensions)
    assert (tags.leaves.dtype, tags.leaves.shape) == (np.int32, (count, length))
    assert (tags.words.dtype, tags.words.shape) == (np.int64, (lineage.words, length))
    for leaves, leaf_count in zip(tags.leaves, lineage.leaf_counts, strict=True):
        assert bool(((leaves >= 0) & (leaves < leaf_count)).all())


def check_tags(predicates: Sequence[Expression | None], columns: Columns) -> None:
    """Tags of the rows, made at once."""
    lineage = Lineage(predicates)
    check_told(lineage, *lineage.tag(columns.__getitem__, len(columns[0])), columns)


def check_told(
    lineage: Lineage, tags: Tags, failures: Sequence[Failure], columns: Columns, is_past: bool = False
) -> None:
    """Every predicate true where it should be; those that raise named, at their first bad row, or last."""
    predicates, length = lineage.predicates, len(columns[0])
    check_shape(lineage, tags, length)
    failed = {failure.predicate: failure for failure in failures}
    assert len(failed) == len(failures)
    answers = {predicate: outcomes(predicate, columns) for predicate in predicates}
    good = {predicate: sound_part(answer, is_past) for predicate, answer in answers.items()}
    for predicate, expected in answers.items():
        found = satisfied(tags, lineage.demand(predicate))
        assert [found[at] for at in good[predicate]] == [expected[at] for at in good[predicate]], predicate
        if len(good[predicate]) == length:
            assert predicate not in failed, predicate
            continue
        assert predicate in failed, predicate
        failure = failed.pop(predicate)
        assert failure.row == (good[predicate].start - 1 if is_past else good[predicate].stop)
        assert is_past or str(failure.error) == expected[failure.row][1]
        # Elsewhere false, unless one that has not failed there needs the same bit.
        rest = split(predicate).rest
        others = [other for other in answers if other != predicate and split(other).rest == rest]
        for at in set(range(length)) - set(good[predicate]):
            assert not found[at] or any(at in good[other] and answers[other][at] for other in others)
    assert not failed


def sound_part(answers: Sequence[Any], is_past: bool) -> range:
    """The rows before the first on which something raised; of the past, those after the last."""
    bad = [at for at, answer in enumerate(answers) if isinstance(answer, tuple)]
    if not bad:
        return range(len(answers))
    return range(bad[-1] + 1, len(answers)) if is_past else range(bad[0])


# Drawn predicates


def comparison(function: str, left: Expression, right: Expression) -> Call:
    return Call(BOOLEAN, function, (left, right))


COMPARISONS = ["less", "less_equal", "equal", "greater_equal", "greater"]
SUBJECTS: list[Expression] = [
    A, B, X, S, F, T,
    Call(DOUBLE, "cast", (A,)),
    Call(DOUBLE, "add", (X, X)),
    Call(VARCHAR, "upper", (S,)),
    Call(BIGINT, "length", (S,)),
]  # fmt: skip
OTHERS = [
    "a <> 1", "a < b", "x > a", "s LIKE 'a%'", "s <> 'b'", "f", "NOT f", "a IN (1, 2)", "a = 1 OR x = 1.5",
    "ts IS NULL", "s IS NULL", "f IS NOT TRUE", "1 < 2", "CAST(NULL AS BOOLEAN)", "FALSE", "x = x",
    "s = upper(s)",
]  # fmt: skip
FALLIBLE = [
    "a + a > 3", "10 // a > 1", "a % b = 0", "CAST(s AS BIGINT) = 12", "a * b < 5", "a + 1 IS NOT NULL",
    "x > 1 OR 10 // a > 1", "CASE WHEN a > 0 THEN 10 // b > 1 ELSE f END", "a + b > NULL",
]  # fmt: skip


@st.composite
def bounds(draw: st.DrawFn) -> Expression:
    subject = draw(st.sampled_from(SUBJECTS))
    if draw(st.integers(0, 6)) == 0:
        return Call(BOOLEAN, "not", (Call(BOOLEAN, "is_null", (subject,)),))
    literal = Literal(subject.type, draw(st.sampled_from(USUAL[subject.type])))
    function = draw(st.sampled_from([*COMPARISONS, "equal", "is_not_distinct"]))
    sides = (subject, literal) if draw(st.booleans()) else (literal, subject)
    return Call(BOOLEAN, function, sides)


CERTAIN = st.one_of(bounds(), bounds(), st.sampled_from(OTHERS).map(where))
ANY = st.one_of(bounds(), bounds(), st.sampled_from(OTHERS).map(where), st.sampled_from(FALLIBLE).map(where))


def predicates(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression | None]:
    return st.lists(parts, max_size=4).map(lambda drawn: conjunction(tuple(drawn)))


ROWS = st.lists(
    st.tuples(*(st.sampled_from(USUAL[type_]) | st.sampled_from(NASTY[type_]) for type_ in TYPES)), max_size=9
)
