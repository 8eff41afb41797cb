"""Fingerprints of rows: equal if and only if the values are, as GROUP BY and DISTINCT see it."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes_help import row_key
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.rows.types import ARROW_TYPES, SqlType

BIG = [0, 1, -1, 2, (1 << 63) - 1, -(1 << 63), 1 << 32, (1 << 32) + 1, 0x5A5A5A5A]
VALUES: dict[SqlType, list[Any]] = {
    SqlType.BIGINT: [None, *BIG, -0x5A5A5A5AA5A5A5A6],  # the last is the code of NULL in hashes
    SqlType.TIMESTAMP: [None, 0, 1, -1, 1 << 40],
    SqlType.BOOLEAN: [None, True, False],
    SqlType.DOUBLE: [
        None, 0.0, -0.0, float("nan"), -float("nan"), float("inf"), float("-inf"),
        1.0, -1.0, 5e-324, 1.5, math.nextafter(1.5, 2.0), 1.7e308,
    ],
    SqlType.VARCHAR: [
        None, "", "\0", "\0\0", "a", "b", "ab", "ba", "aab", "aba", "AaAa", "BBBB", "AaBB", "BBAa",  # 31-hash
        "costarring", "liquid", "declinate", "macallums", "altarage", "zinke",  # FNV-1 and FNV-1a, 32 bits
        "null", "ä", "a\u0308", "x" * 7, "x" * 8, "x" * 9, "x" * 1000, "y" + "x" * 999, "x" * 999 + "y",
    ],
}  # fmt: skip


def array_of(values: list[Any], type_: SqlType) -> pa.Array:
    arrow = ARROW_TYPES[type_]
    if type_ is SqlType.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(arrow)
    return pa.array(values, arrow, from_pandas=False)


def prints(rows: list[tuple[Any, ...]], types: list[SqlType], more: Any = ()) -> list[tuple[int, int]]:
    arrays = [array_of([row[i] for row in rows], t) for i, t in enumerate(types)]
    a, b = fingerprint(arrays, types, len(rows), more)
    assert a.dtype == b.dtype == np.int64
    return list(zip(a.tolist(), b.tolist(), strict=True))


def assert_faithful(rows: list[tuple[Any, ...]], types: list[SqlType]) -> None:
    """One fingerprint per row that differs, one row per fingerprint that differs."""
    rows_of: dict[Any, Any] = {}
    prints_of: dict[Any, Any] = {}
    for row, print_ in zip(rows, prints(rows, types), strict=True):
        assert rows_of.setdefault(print_, row_key(row)) == row_key(row), f"{row} is taken for another"
        assert prints_of.setdefault(row_key(row), print_) == print_, f"{row} is not taken for itself"


@pytest.mark.parametrize("type_", list(VALUES), ids=lambda t: t.name)
def test_one_column(type_: SqlType) -> None:
    assert_faithful([(value,) for value in VALUES[type_] * 2], [type_])


@pytest.mark.parametrize("types", list(product(VALUES, VALUES)), ids=lambda ts: f"{ts[0].name}-{ts[1].name}")
def test_two_columns(types: tuple[SqlType, SqlType]) -> None:
    assert_faithful(list(product(VALUES[types[0]], VALUES[types[1]])) * 2, list(types))


def test_texts_of_several_columns_are_not_joined_up() -> None:
    rows = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), (None, "abc"), ("abc", None), (None, None)]
    assert_faithful(rows, [SqlType.VARCHAR] * 2)


def test_columns_are_told_apart_by_their_place() -> None:
    rows = list(product([None, 0, 1, 2], repeat=4))
    assert_faithful(rows, [SqlType.BIGINT] * 4)


def test_many_texts() -> None:
    """As many as fit: no two of them meet."""
    texts = [("".join(letters),) for length in range(1, 5) for letters in product("abcdefgh", repeat=length)]
    assert_faithful(texts, [SqlType.VARCHAR])
    numbers = [(str(number),) for number in range(20_000)]
    assert len(set(prints(numbers, [SqlType.VARCHAR]))) == len(numbers)


def test_either_half_tells_rows_apart() -> None:
    """The two are independent hashes: in one that collides the other would not."""
    rows = [(number, str(number)) for number in range(20_000)]
    found = prints(rows, [SqlType.BIGINT, SqlType.VARCHAR])
    for half in (0, 1):
        assert len({one[half] for one in found}) == len(rows)
    assert all(a != b for a, b in found)


def test_more_is_part_of_it() -> None:
    """Further numbers per row, such as their ends, tell equal rows apart."""
    rows = [(1,), (1,), (1,)]
    found = prints(rows, [SqlType.BIGINT], [np.array([5, 6, 5])])
    assert found[0] == found[2] != found[1]


def test_a_column_of_nulls_only() -> None:
    """NULL without a type makes no difference."""
    a, b = fingerprint([pa.nulls(2)], [SqlType.NULL], 2)
    assert (a[0], b[0]) == (a[1], b[1])
    arrays = [pa.array([1, 2]), pa.nulls(2)]
    a, b = fingerprint(arrays, [SqlType.BIGINT, SqlType.NULL], 2)
    assert a[0] != a[1]


def test_no_columns() -> None:
    a, b = fingerprint([], [], 3)
    assert len(set(zip(a.tolist(), b.tolist(), strict=True))) == 1


@settings(max_examples=100)
@given(st.data())
def test_any_columns(data: st.DataObject) -> None:
    """Rows drawn from few values; also cut out of a longer array, with NULLs before it."""
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    row = st.tuples(*(st.sampled_from(VALUES[t]) for t in types))
    rows = data.draw(st.lists(row, min_size=1, max_size=20))
    assert_faithful(rows, types)
    start = data.draw(st.integers(0, len(rows) - 1))
    arrays = [array_of([None, *(one[i] for one in rows)], t) for i, t in enumerate(types)]
    a, b = fingerprint([array.slice(1 + start) for array in arrays], types, len(rows) - start)
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == prints(rows, types)[start:]
