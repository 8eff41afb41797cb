"""Joins without windows as EXPLAIN shows them: what bounds each side, and what it holds."""

from __future__ import annotations

from typing import Any

from penstock.engine.intake.disorder import write_rule
from penstock.engine.ordered_keys.facts import GroupFacts, facts_of_side, false_at_most, of_side
from penstock.engine.ordered_keys.ordered_join import OrderedJoin
from penstock.engine.ordered_keys.ordered_side import OrderedSide
from penstock.engine.ordered_keys.predict import loads_of
from penstock.engine.ordered_memory.all_in_memory import all_in_memory
from penstock.engine.plan.plan import FinalGroupNode, OrderedJoinNode
from penstock.optimizer.costs.ordered_memory import OrderedMemory, output_factor, output_rate
from penstock.optimizer.costs.write_rate import write_rate

from .explain_text import where_lines

GIVES = {
    "left": "pairs at once; rows of {first} without a partner when {second} has come past them",
    "full": "pairs at once; rows of either without a partner when the other has come past them",
    "anti": "rows of {first} that have no partner, when {second} has come past them",
    "semi": "rows of {first} that have a partner, once, when the first is there",
}

GOES = {
    "key": "rows go when no row to come can have their key",
    "fifo": "rows go first in, first out, as the buffers of the model say",
}

KEEPS = {
    "none": "within the limit in memory alone",
    "dbf": "rows that lead the other streams wait on the disk",
    "msf": "each stream is brought into the order of its keys first",
    "hybrid": "each stream is brought into the order of its keys first; rows that lead wait on the disk",
}


def describe_ordered(
    node: OrderedJoinNode, join: OrderedJoin, analyze: bool, limited: bool
) -> tuple[str, list[str], dict[str, Any]]:
    """Title, lines and data of a join; analyze: with what was measured; limited: joins were told to keep
    within memory."""
    facts = [facts_of_side(join, side) for side in join.sides]
    names = [f"{one['stream']}.{one['column']}" for one in facts]
    further = len({number for own in node.variables for number in own}) - 1
    title = f"OrderedJoin {' = '.join(names)}"
    if further:
        title += f", {further} more key{'s' if further > 1 else ''}"
    lines = []
    if node.kind != "inner":
        title = title.replace("OrderedJoin", f"FinalJoin {node.kind.upper()}")
        lines.append(GIVES[node.kind].format(first=names[0], second=names[1]))
    lines.append(GOES[node.evict])
    if node.residual is not None:
        lines += [f"partners {line}" for line in where_lines(node.residual)]
    if join.buffers is not None:
        lines.append(KEEPS[join.strategy])
    whole = all_in_memory(node) if limited else None
    if whole is not None:
        lines.append(f"{whole}: all that can be met is in memory, whatever the limit")
    for name, side, one in zip(names, join.sides, facts, strict=True):
        window = node.sides[side.number].window
        shown = f", also [{window}]" if window.is_bounded else ""
        lines.append(f"{name}: {said(side, one)}{shown}")
        if analyze:
            lines[-1] += f", {counted(one)}"
            if one["spooled_rows"]:
                lines[-1] += f", {one['spooled_rows']:,} on the disk"
        predicate = node.sides[side.number].predicate
        lines += [] if predicate is None else [f"  {line}" for line in where_lines(predicate)]
    by_side = join.predicted(OrderedMemory())
    predicted = {name: sum(rows) for name, rows in by_side.items()}
    facts = [one | {"predicted": of_side(by_side, side)} for one, side in zip(facts, join.sides, strict=True)]
    if analyze and node.kind == "inner":
        told = ", ".join(f"{name} {rows:,}" for name, rows in predicted.items())
        lines.append(f"rows as the model has them: {told}")
        loads = loads_of(join.sides, join.frontiers, () if join.buffers is None else join.buffers.leading)
        rate, factor = write_rate(output_rate(loads)), output_factor(loads)
        lines.append(f"gives at most {rate} rows per second, with a factor of at most {factor:,}")
    if analyze and join.rows_gone_early:
        lines.append(f"{join.rows_gone_early:,} rows went early: there was no memory for them")
    if analyze and join.missed.rows:
        lines.append(
            f"{join.missed.rows:,} rows came too late for their partners, "
            f"at most {join.missed.most:,} results missed"
        )
        wrong = false_at_most([join])
        lines[-1] += f", {wrong:,} given without a partner that had one" if wrong else ""
    data: dict[str, Any] = {
        "node": "OrderedJoin",
        "evict": node.evict,
        "kind": node.kind,
        "sides": facts,
        "state_bounded": True,
    }
    data |= {"rows_late_key": join.missed.rows}
    data |= {} if whole is None else {"all_in_memory": whole}
    data |= {"results_missed_at_most": join.missed.most, "strategy": join.strategy, "predicted": predicted}
    return title, lines, data


def describe_groups(
    node: FinalGroupNode, facts: GroupFacts, analyze: bool
) -> tuple[str, list[str], dict[str, Any]]:
    """The same of groups of a key that grows."""
    keys, calls = node.names[: node.keys], node.names[node.keys :]
    lines = [f"each group once, when no row to come can have its `{node.names[0]}`"]
    if node.predicate is not None:
        lines += where_lines(node.predicate)
    if analyze:
        at = "none yet" if facts.frontier is None else f"at `{facts.frontier}`"
        lines.append(f"frontier {at}, {facts.groups:,} groups open, {facts.rows_late:,} rows too late")
    data = {"node": "FinalGroups", "keys": list(keys), "aggregates": list(calls), "state_bounded": True}
    data |= {"frontier": facts.frontier, "groups": facts.groups, "rows_late_key": facts.rows_late}
    return f"FinalGroups {', '.join(keys)}: {', '.join(calls)}".removesuffix(": "), lines, data


def said(side: OrderedSide, facts: dict[str, Any]) -> str:
    """What is declared of a side, or measured."""
    frontier = side.reader.frontier
    if frontier.is_declared:
        return f"ORDERED {write_rule(frontier)}{per_of(side)}, declared"
    return f"ORDERED{per_of(side)}, factor {facts['k']:,} measured"


def per_of(side: OrderedSide) -> str:
    """The columns whose values have a sequence each."""
    names = side.reader.frontier.per
    if not names:
        return ""
    return f" PER {names[0]}" if len(names) == 1 else f" PER ({', '.join(names)})"


def counted(facts: dict[str, Any]) -> str:
    found = f"factor {facts['measured_k']:,} measured, " if facts["order"] != "monitored" else ""
    frontier = "none yet" if facts["frontier"] is None else f"at `{facts['frontier']}`"
    if "values" in facts:
        frontier = f"of {facts['values']:,} values from {frontier.removeprefix('at ')} on"
    return (
        f"{found}up to {facts['multiplicity']:,} alike, frontier {frontier}, "
        f"{facts['predicted_rows']:,} rows predicted, {facts['rows']:,} held"
    )
