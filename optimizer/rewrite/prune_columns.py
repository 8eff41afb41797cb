"""Leave the columns nobody reads behind at the stream, so that no operator carries them along."""

from __future__ import annotations

from dataclasses import replace

from penstock.engine.expressions.expression import Expression, columns_of, move_columns
from penstock.engine.plan.plan import (
    FinalGroupNode,
    JoinNode,
    ManyJoinNode,
    OrderedJoinNode,
    PlanNode,
    SelectNode,
    SideNode,
    SourceNode,
    TableNode,
    WindowNode,
)
from penstock.engine.plan.plan_parts import map_inputs


def prune_columns(node: PlanNode) -> PlanNode:
    """The same plan with every source narrowed to what is read from it."""
    match node:
        case SelectNode() if node.outputs is not None:
            used = columns_in(node.predicate, *node.outputs)
            narrowed, places = narrow(node.input, used)
            if places is None:
                return replace(node, input=narrowed)
            return SelectNode(narrowed, moved(node.predicate, places), moved_all(node.outputs, places))
        case SelectNode():
            return replace(node, input=prune_columns(node.input))
        case FinalGroupNode():
            narrowed, places = narrow(node.input, columns_in(node.predicate, *node.columns))
            if places is None:
                return replace(node, input=narrowed)
            predicate, columns = moved(node.predicate, places), moved_all(node.columns, places)
            return replace(node, input=narrowed, predicate=predicate, columns=columns)
        case JoinNode():
            left, left_side = prune_side(node.left, node.left_side)
            right, right_side = prune_side(node.right, node.right_side)
            return JoinNode(left, right, left_side, right_side, node.condition)
        case ManyJoinNode() | OrderedJoinNode():
            both = zip(node.inputs, node.sides, strict=True)
            inputs, sides = zip(*(prune_side(source, side) for source, side in both), strict=True)
            return replace(node, inputs=inputs, sides=sides)
        case _:
            return map_inputs(node, prune_columns)


def prune_side(node: PlanNode, side: SideNode) -> tuple[PlanNode, SideNode]:
    """A join's input narrowed to what the side filters by, joins by and passes on."""
    used = sorted({*columns_in(side.predicate, *side.keys), *side.columns})
    narrowed, places = narrow(node, used)
    if places is None:
        return narrowed, side
    columns = tuple(places[column] for column in side.columns)
    keys = moved_all(side.keys, places)
    return narrowed, replace(side, predicate=moved(side.predicate, places), keys=keys, columns=columns)


def narrow(node: PlanNode, used: list[int]) -> tuple[PlanNode, dict[int, int] | None]:
    """A source (under a window) with only the used columns, and where each now is; None: nowhere else."""
    match node:
        case SourceNode() | TableNode() if node.columns is None:
            types = tuple(node.types[column] for column in used)
            places = {column: place for place, column in enumerate(used)}
            return replace(node, types=types, columns=tuple(used)), places
        case WindowNode():
            narrowed, moved_to = narrow(node.input, used)
            return WindowNode(narrowed, node.window), moved_to
        case _:
            return prune_columns(node), None


def columns_in(*expressions: Expression | None) -> list[int]:
    """Columns any of the expressions reads, in order."""
    return sorted({index for one in expressions if one is not None for index in columns_of(one)})


def moved(expression: Expression | None, places: dict[int, int]) -> Expression | None:
    return None if expression is None else move_columns(expression, places.__getitem__)


def moved_all(expressions: tuple[Expression, ...], places: dict[int, int]) -> tuple[Expression, ...]:
    return tuple(move_columns(expression, places.__getitem__) for expression in expressions)
