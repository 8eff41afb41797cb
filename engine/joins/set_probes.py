"""What each new row of one side of a window join may find on a shelf of the other: a range of its rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.indexes.index import Probes
from penstock.engine.kernels.joins.bounds import first_alive, first_places, first_within
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.shelf import Shelf
from penstock.engine.shelves.side import Side

FROM_ANYWHERE = ("scan", "hash")
"""Indexes whose probers may see rows from any one on; a tree drops what the first prober does not see."""
SPARED_ROWS, SPARED_MATCHES = 64, 0.5  # of a prober, for which it pays to look up how far it looks back


def probes_by(other: Side, side: Side, shelf: Shelf, row_until: NDArray) -> Probes:
    """The work of `other`'s new rows probing a shelf of `side`, each seeing the rows below row_until."""
    ts = shelf.store.ts
    if not len(row_until):
        return Probes(other.low, other.high, row_until, row_until, ts.end)
    row_from = np.empty(len(row_until), np.int64)
    if side.by_place:
        places = shelf.pos
        seen = first_places(
            other.ts, row_until, places.data, places.base, ts.tail,
            side.come_ts, side.come, shelf.lifetime, row_from,
        )  # fmt: skip
    elif shelf.lifetime == FOREVER:
        row_from.fill(ts.tail)
        seen = row_until.sum() - row_from.sum()
    else:
        seen = first_alive(other.ts, row_until, shelf.lifetime, ts.data, ts.base, ts.tail, ts.end, row_from)
    if other.reach is not None and is_worth_cutting(side, other.reach, shelf, int(seen)):
        pos = shelf.pos
        clock = side.clock(other.ts)
        seen = first_within(clock, other.reach, shelf.lifetime, pos.data, pos.base, row_from, row_until)
    side.met += int(seen)
    return Probes(other.low, other.high, row_from, row_until, ts.end)


def is_worth_cutting(side: Side, reach: NDArray, shelf: Shelf, seen: int) -> bool:
    """Whether to look up for each prober how far back it needs to look, or to find what nobody takes.

    seen: the rows of the shelf that all probers see together.
    """
    if not seen:
        return False
    if shelf.lifetime == FOREVER:
        spared = float(seen)
    else:
        spared = seen * max(0.0, 1.0 - float(reach.mean()) / shelf.lifetime)
    if shelf.index.kind not in FROM_ANYWHERE:
        return False
    if shelf.index.kind == "scan":
        return spared > SPARED_ROWS * len(reach)
    matches = spared * (side.found / side.met if side.met else 1.0)
    return matches > SPARED_MATCHES * len(reach)
