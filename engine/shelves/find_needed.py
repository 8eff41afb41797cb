"""Which rows of a side of a join some member needs, and how long.

In:   a batch of the stream, or rows that are kept already.
Out:  the rows that take part, what is known of them, and lots of rows that live equally long.

Some rows are remembered as a sample of what comes, from which costs are worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate_predicate, selected
from penstock.engine.expressions.functions import may_raise
from penstock.engine.members.lineage import Lineage
from penstock.engine.members.row_tags import known_of, tags_of
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.errors import DataError

from .examined import Needed

if TYPE_CHECKING:
    from .side import Side


def find_needed(side: Side, batch: Batch, births: int | NDArray) -> Needed:
    """Which rows some member needs, how long each lives, what is known of them, what fails on them."""
    needed = needed_by_all(side, batch) if side.terms.is_uniform else needed_by_some(side, batch, births)
    if side.memory is not None:
        tags, failures = tags_of(batch, side.memory)
        for failure in failures:  # of joins apart, of RANGE windows: rows from there on are not tagged by it
            side.note_failed(failure.predicate, int(batch.ts[-1]))
        needed.memory = tuple((tags if needed.there is None else tags.take(needed.there)).arrays)
    return needed


def needed_by_some(side: Side, batch: Batch, births: int | NDArray) -> Needed:
    """The same where members ask for different things."""
    assert side.query_index is not None, "members without an index"
    tags, failures = tags_of(batch, side.terms.lineage)
    needed = Needed(leaves=tuple(tags.leaves), words=tuple(tags.words), failures=failures)
    if side.terms.births_matter:
        needed.leaves += (np.broadcast_to(np.asarray(births, np.int32), batch.length),)
    leaves = as_matrix(needed.leaves, batch.length, np.int32)
    lifetime = side.query_index.longest(side.number, side.number, leaves, tags.words)
    needed.lifetimes = lifetime
    if isinstance(births, int):
        side.seen.sample_tags(leaves, tags.words)
    layout = side.terms.layout
    part = layout.part
    if part is not None and part.side == side.number:
        there = np.flatnonzero((lifetime > part.above) & (lifetime <= part.up_to))
    elif part is None and not layout.by_lifetime and not may_fail(side):
        return needed
    else:
        there = np.arange(batch.length) if layout.keeps_all else np.flatnonzero(lifetime)
    if layout.by_lifetime:
        needed.lifetime = lifetime
        if side.has_reach:
            needed.reach = side.query_index.longest(side.number, 1 - side.number, leaves, tags.words)
    return needed if len(there) == batch.length else needed.take(there)


def may_fail(side: Side) -> bool:
    """Whether a key could fail, and so must not be asked of rows that no member needs."""
    return any(may_raise(key) for key in side.common.keys)


def needed_by_all(side: Side, batch: Batch) -> Needed:
    """The same where all members ask for one and the same predicate."""
    if side.terms.predicate is None:
        return Needed()
    known = known_of(batch)
    if known is not None and known.lineage.knows(side.terms.predicate):
        there = np.flatnonzero(known.lineage.satisfied(side.terms.predicate, known.tags))
        return Needed(None if len(there) == batch.length else there)
    try:
        there = selected(evaluate_predicate(side.terms.predicate, batch.column, batch.length))
    except DataError:
        return Needed(failures=Lineage([side.terms.predicate]).tag(batch.column, batch.length)[1])
    return Needed(None if len(there) == batch.length else there)


def lots_of(side: Side, needed: Needed) -> list[tuple[int, NDArray]]:
    """Which rows live how long, as that is rounded; one lot if all live alike."""
    if needed.lifetime is None:
        return [(side.terms.size, NO_ROWS)]
    ends = ends_of(side, needed.lifetime)
    if len(ends) and (ends == ends[0]).all():
        return [(int(ends[0]), NO_ROWS)]
    return [(int(end), np.flatnonzero(ends == end)) for end in np.unique(ends)]


def ends_of(side: Side, lifetime: NDArray) -> NDArray:
    """Each lifetime rounded up to where rows may leave, but for 0; one for all where that is the last end."""
    allowed = side.terms.allowed_ends
    if allowed is None:
        return lifetime
    if len(lifetime) and lifetime.min() > (0 if len(allowed) == 1 else allowed[-2]):
        return allowed[-1:]
    ends = allowed[np.minimum(allowed.searchsorted(lifetime), len(allowed) - 1)]
    return np.where(lifetime == 0, 0, ends)


def as_matrix(rows: Sequence[NDArray], length: int, dtype: type) -> NDArray:
    """Rows of equal length as one array."""
    return np.stack(rows) if rows else np.empty((0, length), dtype)
