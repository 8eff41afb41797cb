"""What arrays that were restored are looked at with: ranges, orders, chains and trees."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from penstock.engine.indexes.hash import HashIndex
from penstock.engine.kernels.base.packed import is_whole
from penstock.engine.kernels.rows import expiry
from penstock.engine.kernels.rows.chains import are_apart, walk_chains, walk_trees
from penstock.engine.restoring.in_order import (
    Disorder,
    chained,
    distinct,
    expect,
    rising,
    same_length,
    size_of_two,
    within,
)
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.expiry_queue import ExpiryQueue
from penstock.engine.rows.store import Store, TextColumn
from penstock.engine.rows.types import SqlType


def naive_chains(heads: list[int], following: list[int], seen: set[int]) -> int:
    """How many are met; -1: one outside, or twice."""
    count = 0
    for at in heads:
        while at >= 0:
            if at >= len(following) or at in seen:
                return -1
            seen.add(at)
            count += 1
            at = following[at]
    return count


def naive_tree(root: int, child: list[list[int]]) -> int:
    return 1 + sum(naive_tree(one, child) for one in child[root]) if root else 0


@pytest.mark.twin("chains.walk_chains")
@given(st.integers(0, 8), st.data())
def test_chains_end_and_meet_nothing_twice(size: int, data: st.DataObject) -> None:
    place = st.integers(-1, size)
    following = data.draw(st.lists(place, min_size=size, max_size=size))
    heads = data.draw(st.lists(place, max_size=3))
    hidden = data.draw(st.sets(st.integers(0, size - 1), max_size=2)) if size else set()
    seen = np.zeros(size, np.bool_)
    seen[list(hidden)] = True
    met = set(hidden)
    found = walk_chains(np.array(heads, np.int64), np.array(following, np.int64), seen)
    assert found == naive_chains(heads, following, met)
    if found >= 0:
        assert set(np.flatnonzero(seen).tolist()) == met


@pytest.mark.twin("chains.walk_trees")
@given(st.integers(0, 9), st.randoms(use_true_random=False))
def test_nodes_of_trees_are_counted(used: int, dice: Any) -> None:
    child, free, roots = [[0, 0] for _ in range(used + 1)], [], [0, 0, 0]
    for node in range(1, used + 1):  # each below one that is there, or a root, or nowhere
        places: list[Any] = [(roots, i) for i in range(3) if not roots[i]]
        places += [(child[one], side) for one in free for side in (0, 1) if not child[one][side]]
        if places and dice.random() < 0.8:
            where, at = dice.choice(places)
            where[at] = node
            free.append(node)
    found = walk_trees(np.array(roots, np.int64), np.array(child, np.int64), used)
    assert found == sum(naive_tree(root, child) for root in roots) == len(free)


@pytest.mark.twin("chains.are_apart")
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=5))
def test_blocks_are_apart_or_not(blocks: list[tuple[int, int]]) -> None:
    begins, sizes = np.array([*blocks, (0, 0)], np.int64).T.copy()
    places = [at for begin, size in blocks for at in range(begin, begin + size)]
    assert are_apart(begins, sizes, 16) == (len(set(places)) == len(places))


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False),
        st.sampled_from(["", "x" * 20, "x" * 40, "x" * 300, "x" * 70_000]), st.binary(max_size=40),
        st.sampled_from([msgpack.ExtType(5, bytes(size)) for size in (1, 2, 4, 7, 8, 16, 300)]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=20), st.dictionaries(st.integers(0, 99), inner, max_size=20)
    ),
    max_leaves=20,
)  # fmt: skip


def as_bytes(packed: bytes) -> Any:
    return np.frombuffer(packed, np.uint8).copy()


@pytest.mark.twin("packed.is_whole")
@given(VALUES, st.data())
def test_values_are_whole_if_they_can_be_unpacked(value: Any, data: st.DataObject) -> None:
    packed = msgpack.packb(value)
    assert is_whole(as_bytes(packed))
    at = data.draw(st.integers(0, len(packed) - 1))
    assert not is_whole(as_bytes(packed[:at]))
    assert not is_whole(as_bytes(packed + b"\0"))
    other = packed[:at] + bytes([data.draw(st.integers(0, 255))]) + packed[at + 1 :]
    with contextlib.suppress(TypeError, ValueError):  # a list as a key, say
        msgpack.unpackb(other, strict_map_key=False, raw=True)
        assert is_whole(as_bytes(other))


@pytest.mark.parametrize("look", [is_whole, getattr(is_whole, "py_func", is_whole)], ids=["jit", "python"])
def test_long_values_are_whole_also_where_kernels_run_as_python(look: Any) -> None:
    """Numbers of 8 bits are no lengths: 17,207 did not fit there."""
    for value in ("x" * 17_207, list(range(300)), {"key": b"y" * 70_000}):
        assert look(as_bytes(msgpack.packb(value)))
        assert not look(as_bytes(msgpack.packb(value)[:-1]))


def test_lists_that_say_they_are_long_are_not_whole() -> None:
    assert not is_whole(as_bytes(b"\xdd\xff\xff\xff\xff"))
    assert not is_whole(as_bytes(b"\xdd\x00\x00\x00\x40" * 100))
    assert not is_whole(as_bytes(b"\xdf\x80\x00\x00\x00" + bytes(100)))
    assert not is_whole(as_bytes(b""))


@pytest.mark.parametrize(
    "look",
    [
        lambda: expect(False, "x"),
        lambda: within(np.array([0, 5]), 0, 5, "x"),
        lambda: within(np.array([-1, 4]), 0, 5, "x"),
        lambda: rising(np.array([1, 0]), "x"),
        lambda: size_of_two(0, "x"),
        lambda: size_of_two(6, "x"),
        lambda: same_length("x", [1], []),
        lambda: distinct(np.array([2, 2]), 3, "x"),
        lambda: distinct(np.array([3]), 3, "x"),
        lambda: chained(np.array([0]), np.array([0]), np.zeros(1, np.bool_), "x"),
    ],
)
def test_disorder_is_raised(look: Any) -> None:
    with pytest.raises(Disorder, match="expected"):
        look()


def test_order_is_not() -> None:
    within(np.array([], np.int64), 0, 0, "x")
    within(np.array([0, 4]), 0, 5, "x")
    rising(np.array([0, 0, 1]), "x")
    size_of_two(8, "x")
    same_length("x", [1], [2])
    distinct(np.array([2, 0, 1]), 3, "x")
    assert chained(np.array([1, -1]), np.array([-1, 0]), np.zeros(2, np.bool_), "x") == 2


def queue_of_times() -> ExpiryQueue:
    """Some in the ring, some in lists, of which one has two entries and one was taken."""
    queue = ExpiryQueue()
    for number, ets in enumerate([5, 9, 9, 3, 3, 2, 7]):
        push(*queue.arrays, ets, number)
    pop(*queue.arrays)
    return queue


@njit
def push(ring_ets, ring_id, heap_ets, lists, meta, ets, id_):  # type: ignore[no-untyped-def]
    expiry.push_due(ring_ets, ring_id, heap_ets, lists, meta, ets, id_)


@njit
def pop(ring_ets, ring_id, heap_ets, lists, meta):  # type: ignore[no-untyped-def]
    return expiry.pop_due(ring_ets, ring_id, heap_ets, lists, meta)


def index_of_keys() -> HashIndex:
    index = HashIndex(10)
    index.insert(np.arange(300) % 7)
    index.purge(12)
    return index


def texts() -> TextColumn:
    column = TextColumn()
    column.append(pa.array(["one", None, "zw\u00f6lf", ""]))
    return column


def times() -> Store:
    store = Store([SqlType.BIGINT, SqlType.VARCHAR])
    store.append(np.array([1, 1, 4]), [pa.array([1, None, 3]), pa.array(["a", "b", "c"])])
    return store


def batch() -> Batch:
    whole = Batch(np.array([1, 2]), [pa.array([1, 2]), pa.array(["a", "b"])])
    return whole.take(np.array([0, 1, 1]))


def set_item(name: str, place: Any, value: Any) -> Any:
    """Put a value somewhere in the attribute that a path of names leads to."""

    def change(owner: Any) -> None:
        *path, last = name.split(".")
        for one in path:
            owner = owner[int(one)] if one.isdigit() else getattr(owner, one)
        if place is None:
            setattr(owner, last, value)
        else:
            (owner[int(last)] if last.isdigit() else getattr(owner, last))[place] = value

    return change


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (queue_of_times, set_item("meta", expiry.HEAD, 256)),
        (queue_of_times, set_item("meta", expiry.RING, 257)),
        (queue_of_times, set_item("meta", expiry.HEAP, 3)),
        (queue_of_times, set_item("meta", expiry.LISTED, 2)),
        (queue_of_times, set_item("meta", expiry.FREE_NODE, 0)),
        (queue_of_times, set_item("meta", expiry.USED_NODES, 300)),
        (queue_of_times, set_item("_lists", (0, expiry.NEXT), 0)),
        (queue_of_times, set_item("_lists", (0, expiry.NEXT), 300)),
        (queue_of_times, set_item("_lists", (0, expiry.LIST), -1)),
        (queue_of_times, set_item("_heap_ets", 0, 8)), (queue_of_times, set_item("_ring.0", 0, 99)),
        (index_of_keys, set_item("_tail", None, -1)), (index_of_keys, set_item("_inserted", None, 301)),
        (index_of_keys, set_item("_end", None, 1 << 20)), (index_of_keys, set_item("_origin", None, -5)),
        (index_of_keys, set_item("_heads", None, np.zeros(100, np.int32))),
        (index_of_keys, set_item("_links", None, np.zeros(3, np.int32))),
        (texts, set_item("starts.data", 1, 99)), (texts, set_item("starts.data", 2, 0)),
        (texts, set_item("data.data", 0, 255)), (texts, set_item("starts.data", 3, 6)),
        (texts, set_item("valid.end", None, 9)),
        (times, set_item("ts.data", 0, 2)), (times, set_item("columns.0.values.end", None, 2)),
        (times, set_item("columns.1.starts.end", None, 2)),
        (batch, set_item("_columns.0.rows", 0, -1)), (batch, set_item("_columns.1.rows", 2, 2)),
        (batch, set_item("length", None, 4)), (batch, set_item("_columns.0.view.index", None, 2)),
    ],
)  # fmt: skip
def test_state_that_is_not_in_order_is_noticed(make: Any, change: Any) -> None:
    owner = make()
    owner._check_restored()
    owner = make()
    change(owner)
    with pytest.raises((Disorder, IndexError)):
        owner._check_restored()


def test_chains_of_a_restored_index_are_laid_anew() -> None:
    """Whatever the links were: they follow from the keys."""
    index, other = index_of_keys(), index_of_keys()
    index._links[:], index._heads[:] = 1 << 30, 77
    index._check_restored()
    index._check()
    assert np.array_equal(index._heads, other._heads)
