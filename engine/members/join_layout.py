"""How a join that queries have in common keeps its rows and finds the queries a pair belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LifetimeCut:
    """Of the rows of `side`, only those whose lifetime is above `above` and at most `up_to` take part.

    sizes: how long rows are kept, left and right.
    """

    side: int
    above: int
    up_to: int
    sizes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class JoinLayout:
    """`by_lifetime`: a row stays as long as some query needs it; else all stay for the longest window.

    indexes: kind of index on the left and on the right.
    ends: ages at which rows may leave, per side, where the chain's slices end; None: every query's window.
    routed: each pair is tested against each query, as a router behind the join would.
    by_key: pairs that are only counted are not found, where rows can be counted by key instead.
    apart: there should be a join for each query.
    is_numbered: places in the stream are kept with rows, so that copies of one are known as such.
    keeps_all: rows stay that no query needs for their age; whoever asks for that lets them go.
    """

    indexes: tuple[str, str]
    ends: tuple[tuple[int, ...] | None, ...] = (None, None)
    by_lifetime: bool = True
    routed: bool = False
    part: LifetimeCut | None = None
    by_key: bool = False
    apart: bool = False
    is_numbered: bool = False
    keeps_all: bool = False
