"""Keywords of the engine, and of a query, that force a choice which is otherwise made by cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.engine.indexes.build import INDEX_KINDS
from penstock.engine.rows.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from penstock.engine.plan.plan import PlanNode

    from .query import Forced

KNOWN = {
    "sharing": ("auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu"),
    "expiry": ("auto", "ita", "nta", "time-message", "piggyback"),
    "modes": ("auto", "DIDO", "DICO", "CICO", "CIDO"),
    "execution": ("waat", "taat"),
    "optimize": ("exhaustive", "heuristic", "none"),
    "late": ("error", "drop"),
    "evict": ("key", "fifo"),
    "disorder": ("auto", "none", "msf", "dbf", "hybrid"),
}
ONE_FORM = ("push-down", "chain", "chain-cpu")  # strategies for joins of two streams


def closest(value: object, known: Sequence[str]) -> str:
    """The word that was meant, perhaps; all of them have been named."""
    hint = did_you_mean(str(value), known) or ""
    return f". {hint}" if hint.startswith("Did") else ""


def check_option(option: str, value: str) -> None:
    """A keyword of the engine must be known."""
    known = KNOWN[option]
    if value not in known:
        raise UsageError(
            f"Expected {option} to be one of {', '.join(known)}, found `{value}`{closest(value, known)}"
        )


def check_passes(without: Collection[str]) -> frozenset[str]:
    """Names of passes of planning that may be left out."""
    from penstock.optimizer.planning.passes import OPTIONAL

    if isinstance(without, str):
        raise UsageError(f"Expected without as a list of names of passes, found `{without}`")
    for name in without:
        if name not in OPTIONAL:
            hint = closest(name, OPTIONAL)
            raise UsageError(f"Expected without to be some of {', '.join(OPTIONAL)}, found `{name}`{hint}")
    return frozenset(without)


def check_forced(usual: Forced, **asked: Any) -> Forced:
    """What is usual, with what is asked for in its place, which must be known."""
    for option, value in asked.items():
        if option == "modes":
            check_modes(value)
        elif option == "index":
            asked[option] = check_index(value)
        else:
            check_option(option, value)
    return replace(usual, **asked)


def refuse_unused(asked: Mapping[str, object], plan: PlanNode) -> None:
    """What a query forces must be its to choose; with `auto`, and with `unshared`, it may be of no effect."""
    from penstock.engine.plan.plan import CommonJoin, CommonManyJoin, MemberNode
    from penstock.engine.plan.plan_parts import IncrementalNode, plan_nodes

    nodes = list(plan_nodes(plan))
    joins = [type(node.common) for node in nodes if isinstance(node, MemberNode)]
    needed = {
        "sharing": ("a join through windows", bool(joins)),
        "index": ("a join of two streams through windows", CommonJoin in joins),
        "expiry": ("an answer that rows leave", any(isinstance(node, IncrementalNode) for node in nodes)),
    }
    for option, value in asked.items():
        if option not in needed or value in ("auto", "unshared") or value == ("auto", "auto"):
            continue
        what, is_there = needed[option]
        if not is_there:
            raise UsageError(f"Expected a query that has {what} with {option}=`{value}`, found one without")
    if asked.get("sharing") in ONE_FORM and CommonManyJoin in joins and CommonJoin not in joins:
        known = [name for name in KNOWN["sharing"] if name not in ONE_FORM]
        raise UsageError(
            f"Expected sharing of a join of three or more streams to be one of {', '.join(known)}, "
            f"found `{asked['sharing']}`"
        )


def check_modes(modes: object) -> None:
    """One mode for all operators, or modes by the names of operators; which names there are the plan says."""
    if isinstance(modes, str):
        check_option("modes", modes)
    elif not isinstance(modes, Mapping):
        raise UsageError(f"Expected modes as text or by the names of operators, found `{modes!r}`")


def check_seconds(option: str, value: object) -> None:
    """A time, perhaps an infinite one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise UsageError(f"Expected {option} to be a number of seconds above 0, found `{value!r}`")


def check_index(index: str | tuple[str, str]) -> tuple[str | None, str | None]:
    """Index forced on (left, right); None: chosen by cost."""
    known = ("auto", *INDEX_KINDS)
    pair = tuple(index) if isinstance(index, tuple | list) else (index, index)
    if len(pair) != 2:
        raise UsageError(f"Expected an index or a pair of them (left, right), found {len(pair)}")
    for kind in pair:
        if kind not in known:
            said = f"Expected index to be one of {', '.join(known)}, or a pair of these, found `{kind}`"
            raise UsageError(said + closest(kind, known))
    left, right = (None if kind == "auto" else kind for kind in pair)
    return left, right
