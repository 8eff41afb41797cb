"""What a join without windows knows of its streams and of what it has missed, as plain data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.flow.operator import Operator
from penstock.engine.intake.disorder import write_code
from penstock.engine.intake.static_table import StaticTable
from penstock.engine.keys.keys import INT_MAX, INT_MIN
from penstock.engine.ordered_memory.memory_rules import STRATEGIES, MemoryModel, Strategy
from penstock.engine.plan.plan import PlanNode, SourceNode, TableNode
from penstock.engine.plan.plan_parts import plan_nodes

from .final_groups import FinalGroups
from .ordered_join import OrderedJoin
from .ordered_side import OrderedSide


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Of groups of a key that grows: how far that has come, how many are open, what came too late."""

    frontier: str | None
    groups: int
    rows_late: int


def facts_of_groups(groups: FinalGroups) -> GroupFacts:
    now = groups.reader.now
    frontier = None if now == INT_MIN else write_code(now, groups.node.columns[0].type)
    return GroupFacts(frontier, groups.groups, groups.rows_late)


def exact_from(operator: Operator) -> int | None:
    """When a join without windows, or groups of keys that grow, lack nothing of what came before."""
    assert isinstance(operator, OrderedJoin | FinalGroups), "what keeps rows by keys that grow"
    return operator.complete_from


FALSE_PER_MISSED = {"inner": 0, "semi": 0, "left": 1, "anti": 1, "full": 2}
"""Rows that were given without a partner and had one, by pairs that were missed."""


def each_makes(plan: PlanNode, tables: Mapping[str, StaticTable]) -> int:
    """At most so many results are made of one that a join gives: it may meet all rows of the tables above."""
    read = {node.table for node in plan_nodes(plan) if isinstance(node, TableNode)}
    return math.prod(max(1, len(tables[table].rows)) for table in read)


def accuracy_of(
    results: int, joins: Collection[OrderedJoin], groups: Collection[FinalGroups], each: int
) -> float:
    """At least this part of what there is was found, and of what was given is true, by how many results there
    are. each: so many are made of one that a join gives, at most. Of groups each row that is missed, or was
    given and should not be, spoils one."""
    missed, wrong = each * sum(join.missed.most for join in joins), each * false_at_most(joins)
    if groups:
        missed = wrong = missed + wrong + sum(one.rows_late for one in groups)
    right = max(0, results - wrong)
    return 1.0 if not missed else right / max(results, right + missed)


def false_at_most(joins: Iterable[OrderedJoin]) -> int:
    """No more rows than this have been given without a partner and had one."""
    return sum(FALSE_PER_MISSED[join.node.kind] * join.missed.most for join in joins)


def facts_of(
    results: int, joins: list[OrderedJoin], groups: list[FinalGroups], each: int, model: MemoryModel
) -> dict[str, Any]:
    """Of the joins of a query with so many results, at most `each` of them made of one that a join gives, and
    of its groups; predicted: rows of all sides, by strategy."""
    predicted = [join.predicted(model) for join in joins]
    return {
        "accuracy_at_least": accuracy_of(results, joins, groups, each),
        "rows_late_key": sum(join.missed.rows for join in joins) + sum(one.rows_late for one in groups),
        "results_missed_at_most": each * sum(join.missed.most for join in joins),
        "results_false_at_most": each * false_at_most(joins),
        "evict": joins[0].node.evict if joins else "key",
        "groups_open": sum(one.groups for one in groups),
        "strategy": joins[0].strategy if joins else "none",
        "spooled_rows": sum(join.spooled_rows(side.number) for join in joins for side in join.sides),
        "rows_gone_early": sum(join.rows_gone_early for join in joins),
        "predicted": {one: sum(sum(held[one]) for held in predicted) for one in STRATEGIES},
        "sides": [
            facts_of_side(join, side) | {"predicted": of_side(held, side)}
            for join, held in zip(joins, predicted, strict=True)
            for side in join.sides
        ],
    }


def of_side(predicted: Mapping[Strategy, list[int]], side: OrderedSide) -> dict[str, int]:
    """Of what is predicted of all sides that of one, by strategy."""
    return {strategy: rows[side.number] for strategy, rows in predicted.items()}


def facts_of_side(join: OrderedJoin, side: OrderedSide) -> dict[str, Any]:
    """k: the factor by which rows go; measured: that of the last rows. Rates are in rows per second."""
    frontier, source = side.reader.frontier, join.node.inputs[side.number]
    nows = side.reader.nows[: len(frontier.sequences)]
    now = int(nows[nows > INT_MIN].min(initial=INT_MAX)) if frontier.rule.per else side.reader.now
    now = INT_MIN if now == INT_MAX else now
    return {
        "stream": source.stream if isinstance(source, SourceNode) else "",
        "column": frontier.name,
        "order": frontier.rule.kind,
        "k": side.reader.factor if not frontier.rule.per else frontier.factor,
        "measured_k": frontier.measured,
        "multiplicity": side.multiplicity,
        "rate": frontier.rate,
        "lag": join.lag(side.number),
        "frontier": None if now == INT_MIN else write_code(now, frontier.type),
        "predicted_rows": join.predicted_rows(side.number),
        "rows": join.held_rows(side.number),
        "spooled_rows": join.spooled_rows(side.number),
        "rows_late_key": side.rows_late,
        **({"values": frontier.sequences.values} if frontier.rule.per else {}),
    }
