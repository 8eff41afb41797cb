"""What arrays that were restored are looked at with: ranges, orders, chains and trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.in_order import (
    Disorder,
    chained,
    distinct,
    expect,
    rising,
    same_length,
    size_of_two,
    within,
)
from penstock.engine.kernels.chains import walk_chains, walk_trees


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
