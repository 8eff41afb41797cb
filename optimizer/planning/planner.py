"""Goes through the passes: those of a query alone, then those that look at others."""

from __future__ import annotations

from penstock.engine.rows.errors import UnsupportedError
from penstock.optimizer.plan.plan_query import Planned

from .passes import PASSES, Asked, Draft, Setting


def plan_alone(setting: Setting, asked: Asked) -> Draft:
    """The plan of a query as it would run if it were the only one."""
    try:
        return go_through(Draft(setting, asked), with_others=False)
    except RecursionError:
        raise UnsupportedError("A query nested this deep is not supported") from None


def plan_with_others(alone: Draft) -> Planned:
    """The plan with what it keeps in common with the queries that are at work now."""
    return go_through(alone, with_others=True).plan


def go_through(draft: Draft, with_others: bool) -> Draft:
    for one in PASSES:
        is_left_out = one.name in draft.setting.without and not one.always
        if one.with_others == with_others and not is_left_out:
            draft = one.run(draft)
    return draft
