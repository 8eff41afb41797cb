"""Pieces of text that EXPLAIN has in several places."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.expressions.expression import Expression, conjuncts
from penstock.engine.rows.band import Band
from penstock.engine.rows.types import SqlType

FEW_NAMES = 8


def where_lines(predicate: Expression) -> list[str]:
    """A condition, each of its parts on a line of its own."""
    first, *others = conjuncts(predicate) or (predicate,)
    return [f"where {first}", *(f"  and {part}" for part in others)]


def some_of(names: Sequence[str]) -> str:
    """Names of queries, the first few of many."""
    rest = f", ... ({len(names)} queries)" if len(names) > FEW_NAMES else ""
    return ", ".join(names[:FEW_NAMES]) + rest


def band_text(left: str, right: str, band: Band, type_: SqlType) -> str:
    """A band as an interval of right - left, a plain comparison where it is one."""
    below, above = "<=" if band.low_closed else "<", "<=" if band.high_closed else "<"
    if band.low == 0 and band.high is None:
        return f"{left} {below} {right}"
    if band.high == 0 and band.low is None:
        return f"{right} {above} {left}"
    unit = " us" if type_ is SqlType.TIMESTAMP else ""
    low = "" if band.low is None else f"{band.low}{unit} {below} "
    high = "" if band.high is None else f" {above} {band.high}{unit}"
    return f"{low}{right} - {left}{high}"
