"""The shape of a plan, for people."""

from __future__ import annotations

from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Join,
    Node,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
)


def write_shape(node: Node) -> str:
    """A plan in a line: what is joined with what, and where differences stand."""
    match node:
        case StreamScan() | TableScan():
            return node.alias
        case Join():
            word = "JOIN" if node.kind == "inner" else node.kind.upper()
            return f"({write_shape(node.left)} {word} {write_shape(node.right)})"
        case SetOperation():
            return f"({write_shape(node.left)} {node.word} {write_shape(node.right)})"
        case UnionAll():
            return f"({' UNION ALL '.join(map(write_shape, node.inputs))})"
        case Distinct() | Aggregate():
            word, below = "distinct" if isinstance(node, Distinct) else "groups", write_shape(node.input)
            return word + (below if below.startswith("(") else f"({below})")
        case _:
            return write_shape(node.input)
