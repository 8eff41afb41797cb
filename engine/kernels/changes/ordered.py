"""Ordered trees of int64 keys or texts, one per group in common arrays: treaps, balanced by chance.

keys, counts   int64 by node; counts is whatever belongs to the key, 0 if the node is free
child          int64[2 * nodes]: left child of node n at 2 n, right one at 2 n + 1; 0 for none
meta           int64[2]: nodes used, first free one (linked by child 2 n; 0: none)

A key is a number, or a text's place in `texts`: starts (int64, one more than texts) and bytes (uint8).
Without starts keys are numbers. Texts are compared byte by byte.

Node 0 is nobody's: its left child is the root of the tree at hand. The owner sees to free nodes.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, part

USED, FREE = 0, 1
MULTIPLIER = np.uint64(6364136223846793005)
INCREMENT = np.uint64(1442695040888963407)


@expand
def priority(node):  # type: ignore[no-untyped-def]
    """As good as random, and the same each time."""
    h = np.uint64(node) * MULTIPLIER + INCREMENT
    h = (h ^ (h >> np.uint64(32))) * MULTIPLIER
    return h ^ (h >> np.uint64(29))


@expand
def compare(one, other, texts):  # type: ignore[no-untyped-def]
    """Less than 0, 0 or more, as the first key is below, equal to or above the other."""
    starts, data = texts
    order = np.int64(one > other) - np.int64(one < other)
    if len(starts) and order:
        p = starts[one]
        q = starts[other]
        left = starts[one + 1] - p
        right = starts[other + 1] - q
        order = left - right
        for k in range(min(left, right)):
            if data[p + k] != data[q + k]:
                order = np.int64(data[p + k]) - np.int64(data[q + k])
                break
    return order


@part
def find_key(keys, child, key, texts):  # type: ignore[no-untyped-def]
    """The node with this key in the tree at hand; 0: none."""
    node = child[0]
    while node:
        order = compare(keys[node], key, texts)
        if order == 0:
            break
        node = child[2 * node + (order < 0)]
    return node


@part
def insert_key(keys, counts, child, meta, key, count, texts):  # type: ignore[no-untyped-def]
    """Add a key that is not there."""
    node = meta[FREE]
    if node:
        meta[FREE] = child[2 * node]
    else:
        meta[USED] += 1
        node = meta[USED]
    keys[node] = key
    counts[node] = count
    rank = priority(node)
    # 1. down to where the chances say
    hook = np.int64(0)
    at = child[hook]
    while at and priority(at) >= rank:
        hook = 2 * at + (compare(keys[at], key, texts) < 0)
        at = child[hook]
    child[hook] = node
    # 2. what was there goes left and right of it
    left = 2 * node
    right = 2 * node + 1
    while at:
        if compare(keys[at], key, texts) < 0:
            child[left] = at
            left = 2 * at + 1
            at = child[left]
        else:
            child[right] = at
            right = 2 * at
            at = child[right]
    child[left] = 0
    child[right] = 0


@part
def remove_key(keys, counts, child, meta, key, texts):  # type: ignore[no-untyped-def]
    """Take a key out that is there."""
    hook = np.int64(0)
    node = child[hook]
    while True:
        order = compare(keys[node], key, texts)
        if order == 0:
            break
        hook = 2 * node + (order < 0)
        node = child[hook]
    left = child[2 * node]
    right = child[2 * node + 1]
    while left and right:
        if priority(left) >= priority(right):
            child[hook] = left
            hook = 2 * left + 1
            left = child[hook]
        else:
            child[hook] = right
            hook = 2 * right
            right = child[hook]
    child[hook] = left if left else right
    counts[node] = 0
    child[2 * node] = meta[FREE]
    meta[FREE] = node


@part
def last_node(child):  # type: ignore[no-untyped-def]
    """The node with the greatest key; 0: the tree is empty."""
    node = child[0]
    while node and child[2 * node + 1]:
        node = child[2 * node + 1]
    return node


@part
def node_from(keys, child, key):  # type: ignore[no-untyped-def]
    """The node with the least key from `key` on; 0: none."""
    found = np.int64(0)
    node = child[0]
    while node:
        if keys[node] < key:
            node = child[2 * node + 1]
        else:
            found = node
            node = child[2 * node]
    return found


@part
def node_before(keys, child, key):  # type: ignore[no-untyped-def]
    """The node with the greatest key below `key`; 0: none."""
    found = np.int64(0)
    node = child[0]
    while node:
        if keys[node] < key:
            found = node
            node = child[2 * node + 1]
        else:
            node = child[2 * node]
    return found


@part
def first_node(child):  # type: ignore[no-untyped-def]
    """The node with the least key; 0: the tree is empty."""
    node = child[0]
    while node and child[2 * node]:
        node = child[2 * node]
    return node
