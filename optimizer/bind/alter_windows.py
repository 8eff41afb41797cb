"""ALTER QUERY ... SET WINDOW: the same query with another window on every stream it reads."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from penstock.engine.rows.window import Window
from penstock.optimizer.tree.logical import Node, Query, StreamScan


def with_window(query: Query, window: Window) -> Query:
    """The query as if every stream in it had been written with this window."""
    return replace(query, root=altered(query.root, window))


def altered(node: Node, window: Window) -> Node:
    if isinstance(node, StreamScan):
        return replace(node, window=window, windowed=True)
    changes: dict[str, Any] = {}
    for one in fields(node):
        value = getattr(node, one.name)
        if one.name in ("input", "left", "right"):
            changes[one.name] = altered(value, window)
        elif one.name == "inputs":
            changes[one.name] = tuple(altered(part, window) for part in value)
    return replace(node, **changes)
