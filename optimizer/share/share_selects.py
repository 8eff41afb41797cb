"""Which selects run together: those that read a stream as it is, each with its own filter and outputs.

All of one stream share, whatever they ask: what they have in common is found where they run (see
engine/selects/shared_select.py and shared_window_select.py). A select over a join stays what it is.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.engine.expressions.expression import Column, Expression
from penstock.engine.plan.plan import (
    PlanNode,
    SelectNode,
    SharedSelectNode,
    SourceNode,
    UnionNode,
    WindowNode,
)
from penstock.engine.selects.shared_window_select import entering
from penstock.optimizer.rewrite.over_stream import over_stream
from penstock.optimizer.rewrite.prune_columns import columns_in, moved_all


def share_selects(node: PlanNode, owner: str | None) -> PlanNode:
    """The plan with its selects over streams run together with others; as it is if it has an owner."""
    if owner is not None:
        return node
    match node:
        case SelectNode() if isinstance(node.input, SourceNode):
            return share_select(node, node.input)
        case SelectNode(input=WindowNode(input=SourceNode() as source, window=window)):
            shared = share_select(node, source)
            assert window.size is not None, "every row enters an unbounded window"
            asked = entering(shared.common_predicate, window.size)
            return replace(shared, input=node.input, common_predicate=asked)
        case SelectNode():
            return replace(node, input=share_selects(node.input, owner))
        case UnionNode():
            return replace(node, inputs=tuple(share_selects(part, owner) for part in node.inputs))
        case _:
            return node


def share_select(node: SelectNode, source: SourceNode) -> SharedSelectNode:
    """A select over some columns of a stream, also said over all of them."""
    places = tuple(range(len(source.types))) if source.columns is None else source.columns
    predicate = None if node.predicate is None else over_stream(node.predicate, source.stream, places)
    columns: tuple[int, ...]
    projection: tuple[Expression, ...] | None = None
    if node.outputs is None:
        columns = places
    elif all(isinstance(output, Column) for output in node.outputs):
        columns = tuple(places[output.index] for output in node.outputs if isinstance(output, Column))
    else:
        used = columns_in(*node.outputs)
        columns = tuple(places[index] for index in used)
        projection = moved_all(node.outputs, {index: place for place, index in enumerate(used)})
    return SharedSelectNode(source, node.predicate, node.outputs, predicate, columns, projection)
