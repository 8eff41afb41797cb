"""What is final of joins on keys that grow, by the definitions: all arrivals so far, pair by pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ordered_streams import Arrival, frontier_of, keys_of

Answer = tuple[int | None, int | None]
"""The row of a and that of b."""
AT_THE_END = float("inf")


@dataclass(frozen=True)
class Condition:
    """What makes rows partners beside equal keys, as SQL says it and as a function of both rows' numbers."""

    sql: str
    holds: Callable[[int, int], bool]


CONDITIONS = (
    Condition("", lambda a, b: True),
    Condition(" AND a.r % 3 = b.r % 3", lambda a, b: a % 3 == b % 3),
    Condition(" AND a.s = b.s", lambda a, b: a == b),
    Condition(" AND a.r <= b.r + 2", lambda a, b: a <= b + 2),
    Condition(" AND a.r % 2 = 0", lambda a, b: a % 2 == 0),
    Condition(" AND b.r % 3 > 0", lambda a, b: b % 3 > 0),
    Condition(" AND a.r % 2 = 0 AND b.r % 3 > 0 AND a.r <> b.r", lambda a, b: a % 2 == 0 < b % 3 and a != b),
    Condition(" AND 1 = 0", lambda a, b: False),
)


def final_rows(
    kind: str, arrivals: list[Arrival], factors: list[int], condition: Condition, ended: bool = False
) -> Counter[Answer]:
    """All of the answer that no arrival to come can change."""
    a, b = ([one for one in arrivals if one.stream == stream] for stream in (0, 1))
    passed = [
        AT_THE_END if ended else frontier_of(keys_of(arrivals, stream), factors[stream]) for stream in (0, 1)
    ]
    pairs = [
        (x.row, y.row)
        for x in a
        for y in b
        if x.key is not None and x.key == y.key and condition.holds(x.row, y.row)
    ]
    met = [{pair[side] for pair in pairs} for side in (0, 1)]
    alone = [
        [
            one.row
            for one in rows
            if one.row not in met[side] and is_passed(one, side, passed, condition, kind)
        ]
        for side, rows in enumerate((a, b))
    ]
    found: list[Answer] = []
    if kind in ("left", "right", "full"):
        found += pairs
    if kind in ("left", "full", "anti"):
        found += [(row, None) for row in alone[0]]
    if kind in ("right", "full"):
        found += [(None, row) for row in alone[1]]
    if kind == "semi":
        found += [(row, None) for row in met[0]]
    return Counter(found)


def is_passed(one: Arrival, side: int, passed: list[float], condition: Condition, kind: str) -> bool:
    """Whether no partner of a row can come."""
    if one.key is None or one.key <= passed[1 - side]:
        return True
    if "1 = 0" in condition.sql and kind == "anti":
        return False  # that is said of b inside EXISTS, of which some row might still come
    others = range(60)  # enough for every remainder: what is said of this row alone rules all of them out
    meets = [condition.holds(*((one.row, row) if side == 0 else (row, one.row))) for row in others]
    return "<=" not in condition.sql and "s =" not in condition.sql and not any(meets)
