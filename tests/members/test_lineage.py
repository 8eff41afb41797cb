"""Lineage against its meaning: a row's tags satisfy a predicate's demand exactly if the predicate is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from lineage_help import (
    ANY,
    CERTAIN,
    COMPARISONS,
    FALLIBLE,
    OTHERS,
    ROWS,
    SUBJECTS,
    TYPES,
    USUAL,
    A,
    X,
    bounds,
    check_tags,
    comparison,
    outcomes,
    predicates,
    row,
    satisfied,
    table,
    where,
)
from nasty_values import BOOLEAN, DOUBLE, NASTY
from numpy.typing import NDArray

from penstock.engine.expressions import evaluate as evaluation
from penstock.engine.expressions.expression import (
    FALSE,
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    rewrite,
)
from penstock.engine.kernels.joins import lineage as kernels
from penstock.engine.members.lineage import Lineage, split
from penstock.engine.rows.store import text_buffers


@settings(max_examples=60)
@given(st.lists(predicates(CERTAIN), max_size=6), ROWS)
def test_drawn_predicates(drawn: list[Expression | None], rows: list[tuple[Any, ...]]) -> None:
    assert Lineage(drawn).tag(table(*rows).__getitem__, len(rows))[1] == []
    check_tags(drawn, table(*rows))


@settings(max_examples=100)
@given(st.lists(predicates(ANY), max_size=6), ROWS)
def test_drawn_predicates_that_fail(drawn: list[Expression | None], rows: list[tuple[Any, ...]]) -> None:
    check_tags(drawn, table(*rows))


@settings(max_examples=50)
@given(st.sampled_from(FALLIBLE), st.lists(predicates(bounds()), min_size=2, max_size=5), ROWS)
def test_one_rest_that_fails_for_some(
    rest: str, drawn: list[Expression | None], rows: list[tuple[Any, ...]]
) -> None:
    """The same rest under different intervals: it fails only those whose rows it fails on."""
    check_tags([conjunction((where(rest), *conjuncts(one))) for one in drawn], table(*rows))


# Forms, as the binder writes them

INTERVALS = {
    "a < 2": (0, 0),
    "a <= 2": (0, 0),
    "a = 2": (1, 1),
    "a >= 2": (1, 1),
    "a > 2": (1, 1),
    "2 < a": (1, 1),
    "2 <= a": (1, 1),
    "2 = a": (1, 1),
    "2 >= a": (0, 0),
    "2 > a": (0, 0),
    "a IS NOT NULL": (0, 0),
    "a = NULL": (1, 0),
    "a BETWEEN 2 AND 5": (1, 1),
    "a BETWEEN 5 AND 2": (1, 0),
    "a = 2 AND a = 5": (1, 0),
    "a > 2 AND a < 5 AND a IS NOT NULL": (1, 1),
    "a > 9223372036854775807": (1, 0),
    "a <= 9223372036854775807": (0, 0),
    "a = 9223372036854775807": (1, 1),
    "x > 1.5": (1, 1),
    "x >= -0.0 AND x <= 0": (1, 1),
    "x BETWEEN 1 AND 2": (1, 1),
    "x > CAST('nan' AS DOUBLE)": None,
    "a > 1.5": (1, 1),
    "a + 0.5 > 1": (1, 1),
    "f = TRUE": (1, 1),
    "f IS TRUE": (1, 1),
    "f > FALSE": (1, 1),
    "ts > '2020-01-01'": (1, 1),
    "'2020-01-01' >= ts": (0, 0),
    "ts BETWEEN '2020-01-01' AND '2021-01-01'": (1, 1),
    "s = 'a'": (1, 1),
    "'a' = s": (1, 1),
    "s = NULL": (1, 0),
    "s < 'a'": (0, 0),
    "s >= 'a'": (1, 1),
    "'a' < s": (1, 1),
    "s BETWEEN 'a' AND 'b'": (1, 1),
    "s BETWEEN 'b' AND 'a'": (1, 0),
    "s = 'b' AND s > 'a'": (2, 2),
    "s < NULL": (1, 0),
    "s IS NOT NULL": (0, 0),
    "upper(s) < 'a'": (0, 0),
    "a IS NOT DISTINCT FROM 2": (1, 1),
    "a IS NOT DISTINCT FROM NULL": None,
    "a IS NULL": None,
    "a <> 2": None,
    "a IN (2, 5)": None,
    "s IN ('a', 'b')": None,
    "s LIKE 'a%'": None,
    "a = 2 OR a = 5": None,
    "a NOT BETWEEN 2 AND 5": None,
    "a + 1 > 2": None,
    "CAST(s AS BIGINT) > 2": None,
    "CAST(x AS BIGINT) > 2": None,
    "1 < 2": None,
    "a < b": None,
}


@pytest.mark.parametrize("text", INTERVALS)
def test_forms(text: str) -> None:
    """What becomes an interval, and which; everything else is a bit."""
    predicate = where(text)
    lineage = Lineage([predicate])
    demand = lineage.demand(predicate)
    if INTERVALS[text] is None:
        assert (len(lineage.dimensions), lineage.words, demand.bits.tolist()) == (0, 1, [1])
    else:
        assert (len(lineage.dimensions), lineage.words) == (1, 0)
        assert [(low, high) for low, high in zip(demand.low, demand.high, strict=True)] == [INTERVALS[text]]


@pytest.mark.parametrize("at", range(len(SUBJECTS)), ids=lambda at: str(SUBJECTS[at]))
def test_every_form_on_nasty_rows(at: int) -> None:
    """All comparisons with all constants, beside everything that is no interval."""
    random = np.random.default_rng(at)
    pools = [[*USUAL[type_], *NASTY[type_]] for type_ in TYPES]
    columns = table(*(tuple(pool[random.integers(len(pool))] for pool in pools) for _ in range(70)))
    subject = SUBJECTS[at]
    literals = [Literal(subject.type, value) for value in USUAL[subject.type]]
    compared = [
        Call(BOOLEAN, function, sides)
        for function in (*COMPARISONS, "not_equal", "is_not_distinct")
        for literal in literals
        for sides in ((subject, literal), (literal, subject))
    ]
    check_tags([*compared, *(where(text) for text in OTHERS)], columns)


def test_intervals_among_other_constants() -> None:
    """A comparison makes one cut, an equality two; what nobody tells apart is one leaf."""
    texts = ["a > 10", "a >= 20", "a < 20", "a = 30", "a IS NOT NULL", "x > 1"]
    lineage = Lineage([None, *map(where, texts)])
    assert lineage.leaf_counts == (6, 3)
    assert [dimension.expression for dimension in lineage.dimensions] == [A, X]
    assert list(lineage.dimensions[0].cuts) == [11, 20, 30, 31]
    ranges = [(int(d.low[0]), int(d.high[0])) for d in map(lineage.demand, map(where, texts))]
    assert ranges == [(1, 4), (2, 4), (0, 1), (3, 3), (0, 4), (0, 5)]
    tags, _ = lineage.tag(table(*(row(a=a) for a in (9, 10, 11, 19, 20, 29, 30, 31, None))).__getitem__, 9)
    assert tags.leaves[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 5]


def test_intervals_of_texts() -> None:
    """What comes right after a text is the same with a zero byte; where only equality counts, any other
    text is in the first leaf."""
    texts = ["s > 'a'", "s <= 'b'", "s = 'ab'", "s < 'b'"]
    lineage = Lineage(map(where, texts))
    assert list(lineage.dimensions[0].cuts) == ["a\0", "ab", "ab\0", "b", "b\0"]
    ranges = [(int(d.low[0]), int(d.high[0])) for d in map(lineage.demand, map(where, texts))]
    assert ranges == [(1, 5), (0, 4), (2, 2), (0, 3)]
    values = ["", "a", "a\0", "aa", "ab", "aba", "b", "b\0", "ä", None]
    tags, _ = lineage.tag(table(*(row(s=s) for s in values)).__getitem__, len(values))
    assert tags.leaves[0].tolist() == [0, 0, 1, 1, 2, 3, 4, 5, 5, 6]
    equal = Lineage([where("s = 'ab'"), where("s = 'b'"), where("s IS NOT NULL")])
    tags, _ = equal.tag(table(*(row(s=s) for s in values)).__getitem__, len(values))
    assert tags.leaves[0].tolist() == [0, 0, 0, 0, 1, 0, 3, 0, 0, 5]


def test_integers_beyond_doubles() -> None:
    """Compared as BIGINT they are exact; with a DOUBLE they are cast first, as the binder wrote it."""
    big = 2**53
    check_tags(
        [where(text) for text in (f"a > {big}", f"a = {big + 1}", f"a > {big}.0", f"a = {big}.0", "a > 1.5")],
        table(*(row(a=a) for a in (big - 1, big, big + 1, big + 2, 2**63 - 1, 1, 2, None))),
    )


def test_a_literal_of_another_type_is_no_interval() -> None:
    predicate = comparison("less", A, Literal(DOUBLE, 1.5))
    assert Lineage([predicate]).dimensions == ()


def test_trivial() -> None:
    lineage = Lineage([None, TRUE, None])
    assert not lineage.dimensions and not lineage.words
    assert satisfied(lineage.tag(table(row(), row()).__getitem__, 2)[0], lineage.demand(TRUE)) == [True, True]
    assert Lineage([FALSE]).words == 1
    assert len(Lineage([where("a > 1")]).dimensions) == 1


def test_many_bits() -> None:
    """More than a word of them, the sign bit of a word included."""
    rests = [where(f"a <> {i}") for i in range(130)]
    lineage = Lineage(rests)
    assert lineage.words == 3
    assert lineage.demand(rests[63]).bits.tolist() == [-(2**63), 0, 0]
    check_tags(rests, table(*(row(a=a) for a in (0, 63, 64, 129, 130, None))))


def test_order_of_conjuncts_and_names_make_no_other_rest() -> None:
    first = where("a <> 1 AND upper(s) LIKE 'A%' AND a > 2")
    second = rewrite(
        where("a > 3 AND upper(s) LIKE 'A%' AND a <> 1"),
        lambda node: Column(node.type, node.index, f"Z.{node.index}") if isinstance(node, Column) else node,
    )
    assert (str(split(first).rest), str(split(second).rest)) == (
        "(r.a <> 1) AND (UPPER(r.s) LIKE 'A%')",
        "(Z.0 <> 1) AND (UPPER(Z.3) LIKE 'A%')",
    )
    lineage = Lineage([first, second])
    assert lineage.demand(first).bits.tolist() == lineage.demand(second).bits.tolist() == [1]


def test_equal_parts_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    like = evaluation.FUNCTIONS["like"]

    def counted(call: Call, rows: evaluation.Rows) -> Any:
        calls.append(str(call))
        return like(call, rows)

    monkeypatch.setitem(evaluation.FUNCTIONS, "like", counted)
    texts = ["s LIKE 'a%'", "s LIKE 'a%' AND a <> 1", "s LIKE 'a%' AND a > 1", "a = 1 OR s LIKE 'a%'"]
    Lineage(map(where, texts)).tag(table(row(a=1, s="ab"), row(a=2, s="b")).__getitem__, 2)
    assert len(calls) == 1


# Failures


def test_a_failure_is_found_among_many_rows() -> None:
    """Bad rows at 700 and 900; one predicate sees both, one the second, one none."""
    length = 1000
    divisors = [0 if at in (700, 900) else 1 + at % 7 for at in range(length)]
    columns = table(*(row(a=at, b=divisor, x=float(at)) for at, divisor in enumerate(divisors)))
    all_, late, early = (
        where(f"10 // b > 1 AND {more}") for more in ("a >= 0", "x BETWEEN 800 AND 950", "a < 700")
    )
    lineage = Lineage([early, late, where("a > 5"), all_])
    tags, failures = lineage.tag(columns.__getitem__, length)
    assert {(failure.predicate, failure.row) for failure in failures} == {(all_, 700), (late, 900)}
    assert all("Division by zero" in str(failure.error) for failure in failures)
    assert satisfied(tags, lineage.demand(early)) == [
        at < 700 and 10 // (1 + at % 7) > 1 for at in range(length)
    ]
    assert satisfied(tags, lineage.demand(where("a > 5"))) == [at > 5 for at in range(length)]


def test_the_error_is_that_of_the_row() -> None:
    """Another conjunct fails later, but is the first to be evaluated."""
    predicate = where("10 // b >= 0 AND a * a > 0")
    columns = table(*(row(a=2**40 if at == 3 else at, b=0 if at == 6 else 1) for at in range(8)))
    ((found, at, error),) = (
        (failure.predicate, failure.row, str(failure.error))
        for failure in Lineage([predicate]).tag(columns.__getitem__, 8)[1]
    )
    assert (found, at) == (predicate, 3)
    assert "int64 overflow" in error


def test_intervals_guard_a_rest() -> None:
    """No predicate needs the rest where it would fail: no failure."""
    guarded = [where("a > 0 AND 10 // a > 1"), where("a < 0 AND 10 // a < -1"), where("a = 0 AND b > 1")]
    columns = table(*(row(a=a, b=2) for a in (3, 0, -3, 0, 8, None)))
    check_tags(guarded, columns)
    assert Lineage(guarded).tag(columns.__getitem__, 6)[1] == []


def test_a_constant_that_fails() -> None:
    check_tags([where("1 // 0 = 1"), where("1 // 0 = 1 AND a > 1")], table(row(a=1), row(a=2), row(a=3)))
    assert Lineage([where("1 // 0 = 1")]).tag(table().__getitem__, 0)[1] == []


@settings(max_examples=60)
@given(st.lists(st.lists(predicates(CERTAIN), max_size=4), min_size=1, max_size=4), ROWS, st.data())
def test_made_from_the_one_before(
    sets: list[list[Expression | None]], rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Predicates come and go, one by one and many at once: as if made anew."""
    source = table(*rows)
    now = list(dict.fromkeys(sets[0]))
    lineage = Lineage(now)
    for more in sets[1:]:
        now = list(dict.fromkeys([*now, *more[: data.draw(st.integers(0, 2))]]))
        lineage = Lineage(now, lineage)
        if len(now) > 1 and data.draw(st.booleans()):
            now.pop(data.draw(st.integers(0, len(now) - 1)))
            lineage = Lineage(now, lineage)
        fresh = Lineage(now)
        for one in (lineage, fresh):
            tags, _ = one.tag(source.__getitem__, len(rows))
            demand = one.demands(now)
            answers = [
                [
                    bool(
                        (demand.low[p] <= tags.leaves[:, row]).all()
                        and (tags.leaves[:, row] <= demand.high[p]).all()
                        and ((tags.words[:, row] & demand.bits[p]) == demand.bits[p]).all()
                    )
                    for row in range(len(rows))
                ]
                for p in range(len(now))
            ]
            if one is lineage:
                found = answers
        assert found == answers


def implies(lineage: Lineage, one: Expression | None, other: Expression | None) -> bool:
    return lineage.first_implied(one, [other]) == 0


@settings(max_examples=60)
@given(predicates(CERTAIN), predicates(CERTAIN), ROWS)
def test_implies_is_sound(
    first: Expression | None, second: Expression | None, rows: list[tuple[Any, ...]]
) -> None:
    both = conjunction((*conjuncts(first), *conjuncts(second)))
    lineage = Lineage([first, second, both])
    for one in (first, second):
        assert implies(lineage, both, one)
        assert implies(lineage, one, one)
        assert implies(lineage, one, None) if None in (first, second, both) else True
    columns = table(*rows)
    for one, other in ((first, second), (second, first)):
        if implies(lineage, one, other):
            pairs = zip(outcomes(one, columns), outcomes(other, columns), strict=True)
            assert all(theirs for ours, theirs in pairs if ours)


IMPLIED = """
a > 5 => a > 3 | a > 5 => a >= 5 | a = 5 => a BETWEEN 5 AND 9 | a < 5 => a IS NOT NULL
a > 5 AND x > 1 => x > 1 | a = 5 AND a = 6 => x > 1 | s = 'p' => s = 'p' | a <> 1 AND x > 1 => a <> 1
a > NULL => s = 'q' | a <> 1 AND b <> 2 => b <> 2 | x > 1 => x > 1.0 | f IS TRUE => f = TRUE
"""
NOT_IMPLIED = """
a > 3 => a > 5 | a >= 5 => a > 5 | a IS NOT NULL => a < 5 | x > 1 => a > 5 | s = 'p' => s = 'q'
a <> 1 => a <> 2 | a <> 1 => a <> 1 AND b <> 2 | a > 5 => a > 5 AND a <> 7
"""


def pairs(text: str) -> list[tuple[str, ...]]:
    return [tuple(pair.split("=>")) for pair in text.replace("\n", "|").split("|") if pair.strip()]


@pytest.mark.parametrize(("one", "other"), pairs(IMPLIED))
def test_implied(one: str, other: str) -> None:
    assert implies(Lineage([where(one), where(other)]), where(one), where(other))


@pytest.mark.parametrize(("one", "other"), pairs(NOT_IMPLIED))
def test_not_implied(one: str, other: str) -> None:
    assert not implies(Lineage([where(one), where(other)]), where(one), where(other))


COVERED = """
a > 3 => a > 3 AND a <= 5 ; a > 5 => 1 | a BETWEEN 1 AND 9 => a = 3 ; a < 4 ; a > 8 ; a >= 4 => 3
a > 3 => a > 0 ; a > 3 AND a <= 5 ; a > 5 => 0 | a > 3 AND x > 1 => a < 7 AND x > 0 ; a >= 7 => 1
a > 3 AND b <> 2 => a < 7 AND b <> 2 ; a >= 7 => 1 | s >= 'p' => s > 'p' ; s < 'q' => 1
a IS NOT NULL => a < 3 ; a = 3 ; b = 1 ; a > 3 => 3 | a = 5 AND a = 6 => x > 1 => 0
"""
NOT_COVERED = """
a > 3 => a > 3 AND a < 5 ; a > 5 | a > 3 AND x > 1 => a < 7 AND x > 2 ; a >= 7 | b = 1 => a < 3 ; a >= 3
a > 3 => a < 7 AND b <> 2 ; a >= 7 | a > 3 AND x > 3 => a < 7 AND x < 5 ; a >= 7 AND x < 5 ; a < 7 AND x >= 6
"""


def covering(text: str) -> list[tuple[str, ...]]:
    return [tuple(part.strip() for part in case) for case in pairs(text)]


def last_covering(one: str, others: str) -> int | None:
    conditions = [where(one), *(where(other.strip()) for other in others.split(";"))]
    lineage = Lineage(conditions)
    numbers = np.array([lineage.number(other) for other in conditions[1:]], np.int64)
    return lineage.last_covering_of(lineage.number(conditions[0]), numbers)


@pytest.mark.parametrize(("one", "others", "last"), covering(COVERED))
def test_ranges_that_cover_a_predicate_together(one: str, others: str, last: str) -> None:
    assert last_covering(one, others) == int(last)


@pytest.mark.parametrize(("one", "others"), covering(NOT_COVERED))
def test_ranges_that_leave_rows_out(one: str, others: str) -> None:
    assert last_covering(one, others) is None


@settings(max_examples=100)
@given(predicates(CERTAIN), st.lists(predicates(CERTAIN), max_size=6), ROWS)
def test_covering_is_sound(
    one: Expression | None, others: list[Expression | None], rows: list[tuple[Any, ...]]
) -> None:
    lineage = Lineage([one, *others])
    numbers = np.array([lineage.number(other) for other in others], np.int64)
    last = lineage.last_covering_of(lineage.number(one), numbers)
    single = lineage.first_implied_of(lineage.number(one), numbers)
    assert single is None or (last is not None and last <= single)
    if last is not None:
        columns = table(*rows)
        covered = np.zeros(len(rows), np.bool_)
        for other in others[: last + 1]:
            covered |= np.array(outcomes(other, columns), np.bool_)
        assert covered[np.array(outcomes(one, columns), np.bool_)].all()


# Kernels


def both(kernel: Any) -> list[Callable[..., Any]]:
    """The compiled function and the Python it was compiled from."""
    return [kernel, getattr(kernel, "py_func", kernel)]


INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-4, 4)


@pytest.mark.twin("lineage.find_leaves")
@given(st.lists(INT64, max_size=12), st.sets(INT64, max_size=12))
def test_find_leaves(codes: list[int], cuts: set[int]) -> None:
    expected = [sum(cut <= code for cut in cuts) for code in codes]
    for kernel in both(kernels.find_leaves):
        leaves = np.full(len(codes), 99, np.int32)
        kernel(np.array(codes, np.int64), np.array(sorted(cuts), np.int64), leaves)
        assert leaves.tolist() == expected


TEXT = st.text("aäb\0\U0010ffff", max_size=4) | st.text(max_size=9)


@pytest.mark.twin("lineage.find_text_leaves")
@given(st.lists(TEXT, max_size=12), st.sets(TEXT, max_size=12), st.integers(0, 3))
def test_find_text_leaves(texts: list[str], cuts: set[str], skipped: int) -> None:
    """In the order of their UTF-8 bytes; the texts may begin anywhere in their buffers."""
    coded = [cut.encode() for cut in cuts]
    expected = [sum(cut <= text for cut in coded) for text in map(str.encode, texts)]
    array = pa.array([*["junk"] * skipped, *texts], pa.string()).slice(skipped)
    for kernel in both(kernels.find_text_leaves):
        leaves = np.full(len(texts), 99, np.int32)
        kernel(*text_buffers(array), *text_buffers(pa.array(sorted(cuts), pa.string())), leaves)
        assert leaves.tolist() == expected


@st.composite
def bit_masks(draw: st.DrawFn) -> tuple[list[bool], NDArray, int]:
    """Bits, the bytes they are packed in, and where in these they start."""
    before, bits = draw(st.lists(st.booleans(), max_size=11)), draw(st.lists(st.booleans(), max_size=20))
    return bits, np.packbits(np.array([*before, *bits], np.bool_), bitorder="little"), len(before)


@pytest.mark.twin("lineage.set_bit")
@given(bit_masks(), st.integers(0, 63), INT64)
def test_set_bit(mask: tuple[list[bool], NDArray, int], place: int, word: int) -> None:
    bits, packed, offset = mask
    bit = np.int64(1) << np.int64(place)
    for kernel in both(kernels.set_bit):
        words = np.full(len(bits), word, np.int64)
        kernel(packed, offset, words, bit)
        assert words.tolist() == [word | int(bit) if is_set else word for is_set in bits]


@pytest.mark.twin("lineage.mark_nulls")
@given(bit_masks())
def test_mark_nulls(mask: tuple[list[bool], NDArray, int]) -> None:
    bits, packed, offset = mask
    for kernel in both(kernels.mark_nulls):
        leaves = np.arange(len(bits), dtype=np.int32)
        kernel(packed, offset, leaves, 77)
        assert leaves.tolist() == [at if is_valid else 77 for at, is_valid in enumerate(bits)]
