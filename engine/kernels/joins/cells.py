"""Pairs counted by what decides who takes them: the leaves of both rows and the slice of the age."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel

from .slices import slice_of

TOGETHER = 4_096  # pairs whose slices are looked up together


@expand
def add_cells(ages, cells, count, ends, first, shift, histogram):  # type: ignore[no-untyped-def]
    """Count ages by cell: `cells` say where the slices of each begin, and are overwritten.

    Counters are many and far apart: a loop that does nothing but add has many of them on their way at once.
    Returns how many are older than all slices.
    """
    older = np.int64(0)
    for i in range(count):
        place = slice_of(ages[np.uint64(i)], ends, first, shift)
        cells[np.uint64(i)] += place
        older += np.int64(place == len(ends))
    for i in range(count):
        histogram[np.uint64(cells[np.uint64(i)])] += 1
    return older


@kernel
def add_pairs(  # type: ignore[no-untyped-def]
    prober, row, count, times, pos, base, prober_cells, leaves, leaf_base, stride,
    ends, first, shift, histogram, ages, cells,
):  # fmt: skip
    """Count the first `count` pairs, each in the cell of its rows' leaves and the slice of its age.

    prober: int64 position; row: int64 number; times: int64 per prober; pos: int64 by row less base, when it
    came; prober_cells: int64 per prober, where its cells begin; leaves: by row less leaf_base, each worth
    `stride` cells; ends, first, shift: see slices.py; histogram: by cell. ages, cells: int64, room for pairs
    that are worked together: in one loop with the counters, the many arrays would not fit into registers.
    """
    at = 0
    while at < count:
        some = min(count - at, len(ages))
        for i in range(some):
            p, r = prober[at + i], row[at + i]
            ages[i] = times[p] - pos[r - base]
            cells[i] = prober_cells[p] + stride * np.int64(leaves[r - leaf_base])
        add_cells(ages, cells, some, ends, first, shift, histogram)
        at += some


@kernel
def settle_cells(cells, low, high, ranks, counts):  # type: ignore[no-untyped-def]
    """Add to each member's count the pairs in the cells it takes, and clear the cells.

    cells: int32[leaves left, leaves right, slices]; low, high: int32[2, M], the leaves a member takes on each
    side, none if low is above high; ranks: int64[M], the last slice it takes; counts: int64[M], added to.
    """
    lefts, rights, slices = cells.shape
    for i in range(lefts):  # 1. cells become sums over all cells up to them
        for j in range(rights):
            run = np.int32(0)
            for s in range(slices):
                run += cells[i, j, s]
                cells[i, j, s] = run
            if j:
                for s in range(slices):
                    cells[i, j, s] += cells[i, j - 1, s]
        if i:
            for j in range(rights):
                for s in range(slices):
                    cells[i, j, s] += cells[i - 1, j, s]
    for m in range(len(counts)):  # 2. a member takes a box of cells: the sums at its corners
        i, j, s = high[0, m], high[1, m], ranks[m]
        below_i, below_j = low[0, m] - 1, low[1, m] - 1
        if below_i >= i or below_j >= j:
            continue
        taken = np.int64(cells[i, j, s])
        if below_i >= 0:
            taken -= cells[below_i, j, s]
        if below_j >= 0:
            taken -= cells[i, below_j, s]
        if below_i >= 0 and below_j >= 0:
            taken += cells[below_i, below_j, s]
        counts[m] += taken
    cells[:] = 0  # 3. clear


@kernel
def settle_rows(cells, low, by_low, high, by_high, ranks, counts):  # type: ignore[no-untyped-def]
    """What settle_cells does where one side alone has leaves: most rows of cells are empty, and only read.

    cells: int32[leaves, slices]; low, high: int32[M], the leaves a member takes; by_low, by_high: int64, the
    members that take some, in order of these; ranks, counts as there.
    """
    leaves, slices = cells.shape
    total = np.zeros(slices, np.int64)  # of all rows so far, up to a slice
    a = b = 0
    for i in range(leaves):
        while a < len(by_low) and low[by_low[a]] == i:
            counts[by_low[a]] -= total[ranks[by_low[a]]]
            a += 1
        some = np.int32(0)
        for s in range(slices):
            some |= cells[i, s]
        if some:
            run = np.int64(0)
            for s in range(slices):
                run += cells[i, s]
                cells[i, s] = 0
                total[s] += run
        while b < len(by_high) and high[by_high[b]] == i:
            counts[by_high[b]] += total[ranks[by_high[b]]]
            b += 1
