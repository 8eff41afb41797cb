"""What an aggregate over panes says of itself, and of one query's share in it, as a plain record."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.flow.facts import Work, work_of

from .pane_aggregate import PaneAggregate
from .pane_member import PaneMember


@dataclass(frozen=True, slots=True)
class PaneFacts:
    """found: rows of the query's answers so far; answer_rows: of the answer said last, None if it is not
    kept; others: the queries that read the same panes, each once."""

    work: Work
    panes: int
    groups: int
    found: int
    answer_rows: int | None
    others: tuple[str, ...]


def facts_of_panes(panes: PaneAggregate, member: PaneMember) -> PaneFacts:
    says = member.says
    return PaneFacts(
        work_of(panes),
        panes.panes.count,
        panes.panes.slots.used,
        member.found,
        None if says is None else int(says.sum()),
        tuple(dict.fromkeys(one.query for one in panes.members if one.query != member.query)),
    )
