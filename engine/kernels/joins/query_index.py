"""Which members a pair belongs to: members filed by an interval of leaves, and in each place by window.

A tree stands over the leaves of a dimension. Node 1 is its root, the children of node i are 2i and 2i + 1,
leaf k is node `leaves + k`. An interval is the union of a few nodes, none of them below another, so that the
path from a leaf to the root meets each member whose interval contains the leaf exactly once.

              1
          2       3              leaves 0 .. 3 are nodes 4 .. 7
        4   5   6   7            interval 1 .. 3 is nodes 5 and 3

Places are numbered through all trees: a tree's first place plus the node; place 0 is the plain list. A place
has two lists, of entries taken unchecked and of entries to be checked. List i is starts[i]:starts[i + 1] of
the entries, once by descending left window and, half the array further on, once by descending right window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.calls import borrowed
from penstock.engine.kernels.base.jit import expand, kernel, part

from .slices import slice_of

PLAIN = -1
NOWHERE = -2
DIMENSION, LEAVES, FIRST_PLACE, FIRST_LEAF = 0, 1, 2, 3  # columns of `trees`
COMPARED = 64  # members by which others may be left out
MAX_PLACES = 64  # of one interval: two on each level of a tree over int32 leaves


class Members(NamedTuple):
    """What members ask for: windows int64[2, M]; low, high int32[M, D]; bits int64[M, W]."""

    windows: NDArray
    low: NDArray
    high: NDArray
    bits: NDArray


class Filing(NamedTuple):
    """All lists. What differs by side comes first for the left, then for the right.

    trees     int64[T, 4]: dimension, leaves, first place, first leaf among those of all trees
    starts    int64[2 * places + 1]
    entries   int32[2 * E]: members
    windows   int64[2 * E]: their windows on that side
    longest   int64[2 * L] by leaf: the greatest window on the path from the leaf to the root
    plain     int64[2]: the greatest window in the plain list, 0 if it is empty
    """

    trees: NDArray
    starts: NDArray
    entries: NDArray
    windows: NDArray
    longest: NDArray
    plain: NDArray


@part
def nodes_of(low, high, leaves, nodes):  # type: ignore[no-untyped-def]
    """Write the nodes that make up low .. high into `nodes` (int64[MAX_PLACES]); returns how many."""
    count = 0
    left, right = leaves + np.int64(low), leaves + np.int64(high) + 1
    while left < right:
        if left & 1:
            nodes[count] = left
            count += 1
            left += 1
        if right & 1:
            right -= 1
            nodes[count] = right
            count += 1
        left >>= 1
        right >>= 1
    return count


@part
def places_of(m, tree, members, trees, places):  # type: ignore[no-untyped-def]
    """Write the places where member m is filed into `places` (int64[MAX_PLACES]); returns how many."""
    t = tree[m]
    if t == NOWHERE:
        return 0
    if t == PLAIN:
        places[0] = 0
        return 1
    d = trees[t, DIMENSION]
    count = nodes_of(members.low[m, d], members.high[m, d], trees[t, LEAVES], places)
    for i in range(count):
        places[i] += trees[t, FIRST_PLACE]
    return count


@kernel
def choose_dimensions(members, leaf_counts, primary, checked):  # type: ignore[no-untyped-def]
    """By which dimension each member is filed (primary, int64[M]) and whether it is checked (uint8[M]).

    leaf_counts: int64[D]. primary: where the interval covers the smallest share of the leaves; PLAIN if all
    cover everything, NOWHERE if one is empty. Checked are members with bits or with a second interval.
    """
    for m in range(len(primary)):
        best, best_size, best_leaves, intervals = PLAIN, np.int64(1), np.int64(1), 0
        for d in range(len(leaf_counts)):
            size = np.int64(members.high[m, d]) - np.int64(members.low[m, d]) + 1
            if size <= 0:
                best = NOWHERE
                break
            intervals += size < leaf_counts[d]
            if size * best_leaves < best_size * leaf_counts[d]:
                best, best_size, best_leaves = d, size, leaf_counts[d]
        primary[m] = best
        checked[m] = intervals > 1
        for w in range(members.bits.shape[1]):
            if members.bits[m, w] != 0:
                checked[m] = 1


@kernel
def lay_out(members, tree, checked, trees, starts):  # type: ignore[no-untyped-def]
    """Count the entries of each list: fill `starts` (int64, zeros before).

    tree: int64 by member: row of `trees`, PLAIN or NOWHERE.
    """
    places = np.empty(MAX_PLACES, np.int64)
    for m in range(len(tree)):
        for i in range(places_of(m, tree, members, trees, places)):
            starts[2 * places[i] + checked[m] + 1] += 1
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]


@kernel
def file_members(members, tree, checked, side, order, filing):  # type: ignore[no-untyped-def]
    """Fill what a filing, laid out before, keeps for `side`.

    order: members by descending window on that side; so every list comes out in that order.
    """
    trees, starts = filing.trees, filing.starts
    # 1. entries
    places = np.empty(MAX_PLACES, np.int64)
    at = starts + side * starts[-1]
    greatest = np.zeros(len(starts) // 2, np.int64)
    for m in order:
        window = members.windows[side, m]
        for i in range(places_of(m, tree, members, trees, places)):
            number = 2 * places[i] + checked[m]
            filing.entries[at[number]] = m
            filing.windows[at[number]] = window
            at[number] += 1
            greatest[places[i]] = max(greatest[places[i]], window)
    # 2. the greatest windows, from the roots down
    filing.plain[side] = greatest[0]
    leaf_base = side * (len(filing.longest) // 2)
    for t in range(len(trees)):
        first, leaves = trees[t, FIRST_PLACE], trees[t, LEAVES]
        for node in range(2, 2 * leaves):
            greatest[first + node] = max(greatest[first + node], greatest[first + node // 2])
        for leaf in range(leaves):
            filing.longest[leaf_base + trees[t, FIRST_LEAF] + leaf] = greatest[first + leaves + leaf]


@expand
def lists_of(filing):  # type: ignore[no-untyped-def]
    """(trees, starts, entries, windows, longest), for use per row."""
    return (
        borrowed(filing.trees),
        borrowed(filing.starts),
        borrowed(filing.entries),
        borrowed(filing.windows),
        borrowed(filing.longest),
    )


@expand
def fits(m, f, low, high, bits, leaves, words):  # type: ignore[no-untyped-def]
    """Whether pair or row f satisfies all intervals and bits of member m: 0 or 1."""
    fit = True
    d = 0
    while fit and d < len(leaves):
        leaf = leaves[d, f]
        fit = low[m, d] <= leaf and leaf <= high[m, d]
        d += 1
    w = 0
    while fit and w < len(words):
        fit = (words[w, f] & bits[m, w]) == bits[m, w]
        w += 1
    return fit


@expand
def taken_until(windows, begin, end, age):  # type: ignore[no-untyped-def]
    """Where the entries [begin, end), at least one, stop being longer than the age; no jump depends on it."""
    size = end - begin
    at = begin
    while size > 1:
        half = size >> 1
        at += half * np.int64(windows[at + half - 1] > age)
        size -= half
    return at + np.int64(windows[at] > age)


@kernel
def count_plain(age, slices, histogram):  # type: ignore[no-untyped-def]
    """Add pairs of these ages (int64) to the histogram (int64 by slice)."""
    for f in range(len(age)):
        histogram[slice_of(age[f], slices.ends, slices.first, slices.shift)] += 1


@kernel
def count_pairs(  # type: ignore[no-untyped-def]
    side, age, own_age, leaves, words, members, shortest, slices, filing, histogram, hits, counts
):
    """Add pairs whose older row is on `side` to the counters.

    own_age: empty for all 0; shortest: the least window on the prober's side. Counters are int64. histogram,
    by slice of the side: pairs for the unchecked members of the plain list. hits, by entry: pairs that took
    the entries of an unchecked list up to this one. counts, by member: pairs found one by one.
    """
    trees, starts, entries, windows, longest = lists_of(filing)
    low, high, bits = borrowed(members.low), borrowed(members.high), borrowed(members.bits)
    other = borrowed(members.windows[1 - side])
    ends, first_end, shift = borrowed(slices.ends), borrowed(slices.first), slices.shift
    base = side * starts[-1]
    leaf_base = side * (len(longest) // 2)
    plain = filing.plain[side]
    for f in range(len(age)):
        own = own_age[f] if len(own_age) else np.int64(0)
        one_by_one = own >= shortest
        for t in range(-1, len(trees)):
            # 1. leave out a path on which nobody looks so far back
            if t < 0:
                node, first, reach = np.int64(0), np.int64(0), plain
            else:
                leaf = np.int64(leaves[trees[t, DIMENSION], f])
                node, first = trees[t, LEAVES] + leaf, trees[t, FIRST_PLACE]
                reach = longest[leaf_base + trees[t, FIRST_LEAF] + leaf]
            if reach <= age[f]:
                continue
            while True:
                number = 2 * (first + node)
                at, middle, end = base + starts[number], base + starts[number + 1], base + starts[number + 2]
                # 2. unchecked entries, all at once if own ages do not matter
                if one_by_one:
                    while at < middle and windows[at] > age[f]:
                        counts[entries[at]] += np.int64(other[entries[at]] > own)
                        at += 1
                elif number == 0:
                    histogram[slice_of(age[f], ends, first_end, shift)] += 1
                elif at < middle and windows[at] > age[f]:
                    hits[taken_until(windows, at, middle, age[f]) - 1] += 1
                # 3. checked entries
                while middle < end and windows[middle] > age[f]:
                    m = entries[middle]
                    if other[m] > own and fits(m, f, low, high, bits, leaves, words):
                        counts[m] += 1
                    middle += 1
                node >>= 1
                if node == 0:
                    break


@kernel
def settle_plain(tree, checked, rank, histogram, counts):  # type: ignore[no-untyped-def]
    """Add to `counts` what the histogram stands for: pairs in slices before the window's end; clear it.

    By member: tree, checked, and rank, the place of the window's end (int64).
    """
    total = np.int64(0)
    for i in range(len(histogram)):
        total += histogram[i]
        histogram[i] = total
    for m in range(len(counts)):
        if tree[m] == PLAIN and not checked[m]:
            counts[m] += histogram[rank[m]]
    histogram[:] = 0


@kernel
def settle_hits(filing, hits, counts):  # type: ignore[no-untyped-def]
    """Add to `counts` what hits stand for: pairs that stopped at an entry or one after it; clear them."""
    starts = filing.starts
    for side in range(2):
        base = side * starts[-1]
        for number in range(2, len(starts) - 1, 2):
            total = np.int64(0)
            for at in range(base + starts[number + 1] - 1, base + starts[number] - 1, -1):
                total += hits[at]
                counts[filing.entries[at]] += total
    hits[:] = 0


@kernel
def report_pairs(  # type: ignore[no-untyped-def]
    probed, age, own_age, leaves, words, members, filing, start, out_member, out_pair
):
    """Write (member, pair) for the pairs from `start` on. Returns (entries written, next pair).

    probed: uint8; own_age: empty for all 0. The caller owns the outputs; where they are full, the pair that
    did not fit as a whole is the next one.
    """
    trees, starts, entries, windows, longest = lists_of(filing)
    low, high, bits = borrowed(members.low), borrowed(members.high), borrowed(members.bits)
    all_windows, plain = borrowed(members.windows), borrowed(filing.plain)
    room = len(out_member)
    count = 0
    for f in range(start, len(age)):
        side = np.int64(probed[f])
        own = own_age[f] if len(own_age) else np.int64(0)
        base = side * starts[-1]
        before = count
        for t in range(-1, len(trees)):
            # 1. leave out a path on which nobody looks so far back
            if t < 0:
                node, first, reach = np.int64(0), np.int64(0), plain[side]
            else:
                leaf = np.int64(leaves[trees[t, DIMENSION], f])
                node, first = trees[t, LEAVES] + leaf, trees[t, FIRST_PLACE]
                reach = longest[side * (len(longest) // 2) + trees[t, FIRST_LEAF] + leaf]
            if reach <= age[f]:
                continue
            # 2. the two lists of each place up to the root
            while True:
                for number in range(2 * (first + node), 2 * (first + node) + 2):
                    at, end = base + starts[number], base + starts[number + 1]
                    while at < end and windows[at] > age[f]:
                        m = entries[at]
                        at += 1
                        if own > 0 and all_windows[1 - side, m] <= own:
                            continue
                        if number & 1 and not fits(m, f, low, high, bits, leaves, words):
                            continue
                        if count == room:
                            return before, f
                        out_member[count] = m
                        out_pair[count] = f
                        count += 1
                node >>= 1
                if node == 0:
                    break
    return count, len(age)


@kernel
def report_each_member(  # type: ignore[no-untyped-def]
    probed, age, own_age, leaves, words, members, start, out_member, out_pair
):
    """What report_pairs writes, members in ascending order, by testing every member for every pair."""
    windows, low = borrowed(members.windows), borrowed(members.low)
    high, bits = borrowed(members.high), borrowed(members.bits)
    room = len(out_member)
    count = 0
    for f in range(start, len(age)):
        side = np.int64(probed[f])
        own = own_age[f] if len(own_age) else np.int64(0)
        before = count
        for m in range(windows.shape[1]):
            if windows[side, m] <= age[f] or windows[1 - side, m] <= own:
                continue
            if fits(m, f, low, high, bits, leaves, words):
                if count == room:
                    return before, f
                out_member[count] = m
                out_pair[count] = f
                count += 1
    return count, len(age)


@kernel
def drop_implied(low, high, bits, keep):  # type: ignore[no-untyped-def]
    """Write the members that a row may fit first into `keep` (int64[M], the caller's); returns how many.

    Members come in the order in which they are tried. One is left out if an interval of it is empty, or if
    one of the first that are kept asks for no more, so that every row that fits it has fitted before.
    """
    count = 0
    for m in range(len(low)):
        is_new = True
        for d in range(low.shape[1]):
            is_new &= low[m, d] <= high[m, d]
        k = 0
        while is_new and k < min(count, COMPARED):
            asks_more = False
            for d in range(low.shape[1]):
                asks_more |= low[keep[k], d] > low[m, d] or high[keep[k], d] < high[m, d]
            for w in range(bits.shape[1]):
                asks_more |= (bits[keep[k], w] & bits[m, w]) != bits[keep[k], w]
            is_new = asks_more
            k += 1
        if is_new:
            keep[count] = m
            count += 1
    return count


@kernel
def first_by_leaf(low, high, leaves, out):  # type: ignore[no-untyped-def]
    """The first member whose interval contains a leaf, by leaf, into `out` (int64); M if there is none.

    low, high: int32[M], no interval empty.
    """
    nodes = np.empty(MAX_PLACES, np.int64)
    first = np.full(2 * leaves, len(low), np.int64)
    for m in range(len(low)):
        for i in range(nodes_of(low[m], high[m], leaves, nodes)):
            first[nodes[i]] = min(first[nodes[i]], m)
    for node in range(2, 2 * leaves):
        first[node] = min(first[node], first[node // 2])
    out[:] = first[leaves:]


@kernel
def fill_sets(low, high, by_low, by_high, out):  # type: ignore[no-untyped-def]
    """For each leaf of a dimension the set of members whose interval contains it, a bit each.

    low, high: int32[K]; by_low, by_high: int64[K], members in order of these; the caller owns out:
    uint64[leaves, words of 64 members].
    """
    here = np.zeros(out.shape[1], np.uint64)
    a = b = 0
    for leaf in range(len(out)):
        while a < len(by_low) and low[by_low[a]] <= leaf:
            m = by_low[a]
            if low[m] <= high[m]:
                here[m >> 6] |= np.uint64(1) << np.uint64(m & 63)
            a += 1
        while b < len(by_high) and high[by_high[b]] < leaf:
            m = by_high[b]
            here[m >> 6] &= ~(np.uint64(1) << np.uint64(m & 63))
            b += 1
        out[leaf] = here


@expand
def lowest_bit(word):  # type: ignore[no-untyped-def]
    """The place of the lowest bit that is set in a uint64; one is."""
    place = np.int64(0)
    for half in (32, 16, 8, 4, 2, 1):
        is_above = (word & ((np.uint64(1) << np.uint64(half)) - np.uint64(1))) == np.uint64(0)
        place += half * is_above
        word = word >> np.uint64(half * is_above)
    return place


@kernel
def fit_first(leaves, words, windows, low, high, bits, first, bases, sets, out):  # type: ignore[no-untyped-def]
    """For each row the window of the first member it fits, into `out` (int64), 0 if it fits none.

    By member in the order in which they are tried: windows, with a 0 after the last; low, high, bits.
    first[bases[d] + leaf]: before that member none has an interval of dimension d with the leaf. sets: by the
    same places, all members that have one, uint64[places, words of 64 members]; no words: members are tried.
    """
    for f in range(len(out)):
        m = np.int64(0)
        for d in range(len(leaves)):
            m = max(m, first[bases[d] + leaves[d, f]])
        if sets.shape[1] == 0:
            while m < len(low) and not fits(m, f, low, high, bits, leaves, words):
                m += 1
            out[f] = windows[m]
            continue
        found = np.int64(len(low))
        for w in range(m >> 6, sets.shape[1]):
            some = ~np.uint64(0)
            for d in range(len(leaves)):
                some &= sets[bases[d] + leaves[d, f], w]
            while some != np.uint64(0):
                m = (w << 6) + lowest_bit(some)
                if fits(m, f, low, high, bits, leaves, words):
                    found = m
                    break
                some &= some - np.uint64(1)
            if found < len(low):
                break
        out[f] = windows[found]


@kernel
def sort_by_member(members, pairs, starts, positions):  # type: ignore[no-untyped-def]
    """Stable counting sort of pairs by member into `positions`, those of member m at starts[m]:starts[m + 1].

    members, pairs, positions: int32[k]; starts: int64[M + 1]. The caller owns starts and positions.
    """
    starts[:] = 0
    for m in members:
        starts[m + 1] += 1
    for m in range(1, len(starts)):
        starts[m] += starts[m - 1]
    at = starts.copy()
    for i in range(len(members)):
        positions[at[members[i]]] = pairs[i]
        at[members[i]] += 1
