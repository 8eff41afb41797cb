"""Pieces of text that EXPLAIN has in several places."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.expression import Expression, conjuncts

FEW_NAMES = 8


def where_lines(predicate: Expression) -> list[str]:
    """A condition, each of its parts on a line of its own."""
    first, *others = conjuncts(predicate) or (predicate,)
    return [f"where {first}", *(f"  and {part}" for part in others)]


def some_of(names: Sequence[str]) -> str:
    """Names of queries, the first few of many."""
    rest = f", ... ({len(names)} queries)" if len(names) > FEW_NAMES else ""
    return ", ".join(names[:FEW_NAMES]) + rest
