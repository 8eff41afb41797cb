"""In which mode each operator of a hopping query runs: what it reads and what it writes.

    DIDO   changes in, changes out             DICO   changes in, the whole answer at every hop out
    CICO   whole answers in and out            CIDO   whole answers in, changes out

Operators are the joins, set operations, DISTINCTs, aggregates, UNION ALLs and windows of streams of the
logical tree, numbered in preorder from 0, and named by kind and place among their kind: `join 1`, `except 2`,
`scan 1`. Filters and projections work on either form. A window reads a stream, which is neither: only what it
writes counts, and it writes what the operator above it reads, unless it is forced to.

Whatever stands below an operator writes what that reads. The topmost operator writes what the query emits,
whatever was said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from penstock.engine.rows.errors import UsageError, did_you_mean
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Join,
    Node,
    SetOperation,
    StreamScan,
    UnionAll,
    inputs_of,
)

Mode = Literal["DIDO", "DICO", "CICO", "CIDO"]
Form = Literal["delta", "complete"]
Modes: TypeAlias = Mapping[int, Mode]
"""By the number of the operator."""
Forced: TypeAlias = str | Mapping[str, str]
"""As users say it: one mode for all, `auto`, or modes by the names of operators."""

MODES: tuple[Mode, ...] = get_args(Mode)
OPERATORS = (Join, SetOperation, Distinct, Aggregate, UnionAll, StreamScan)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a logical tree; `above`: the number of the one above it, None at the top."""

    number: int
    name: str
    node: Node
    above: int | None

    @property
    def is_scan(self) -> bool:
        return isinstance(self.node, StreamScan)


def reads(mode: Mode) -> Form:
    """What an operator of this mode reads."""
    return "delta" if mode[0] == "D" else "complete"


def writes(mode: Mode) -> Form:
    """What an operator of this mode writes."""
    return "delta" if mode[2] == "D" else "complete"


def mode_of(read: Form, written: Form) -> Mode:
    """The mode of an operator that reads and writes these."""
    mode: Mode = "DIDO" if read == "delta" else "CIDO"
    if written == "complete":
        mode = "DICO" if read == "delta" else "CICO"
    return mode


def operators_of(root: Node) -> list[Operator]:
    """All operators, in the order of their numbers."""
    found: list[Operator] = []
    places: dict[str, int] = {}

    def visit(node: Node, above: int | None) -> None:
        if isinstance(node, OPERATORS):
            kind = kind_of(node)
            places[kind] = places.get(kind, 0) + 1
            found.append(Operator(len(found), f"{kind} {places[kind]}", node, above))
            above = found[-1].number
        for part in inputs_of(node):
            visit(part, above)

    visit(root, None)
    return found


def kind_of(node: Node) -> str:
    """What an operator is called."""
    match node:
        case SetOperation():
            return f"{node.kind} all" if node.all else node.kind
        case UnionAll():
            return "union all"
        case StreamScan():
            return "scan"
        case _:
            return type(node).__name__.lower()


def forced_modes(root: Node, forced: Forced) -> dict[int, Mode]:
    """What is forced, by number. One mode for all: those below another operator write what that reads.

    Raises if a name or a mode is not known, or if two forced modes contradict each other.
    """
    operators = operators_of(root)
    if isinstance(forced, str):
        if forced == "auto":
            return {}
        mode = known_mode(forced)
        inner = mode_of(reads(mode), reads(mode))
        return {one.number: mode if one.above is None else inner for one in operators if not one.is_scan}
    names = {one.name: one.number for one in operators}
    found: dict[int, Mode] = {}
    for name, said in forced.items():
        number = names.get(str(name).lower())
        if number is None:
            hint = did_you_mean(str(name), names) or ""
            wrong = f"Expected modes of {', '.join(f'`{one}`' for one in names)}, found one of `{name}`"
            raise UsageError(f"{wrong}. {hint}" if hint.startswith("Did") else wrong)
        found[number] = known_mode(said)
    for one in operators:
        check_pair(operators, one, found)
    return found


def check_pair(operators: list[Operator], one: Operator, modes: Modes) -> None:
    """Refuse modes of an operator and the one above it that do not fit."""
    if one.above is None or one.number not in modes or one.above not in modes:
        return
    written, wanted = writes(modes[one.number]), reads(modes[one.above])
    if written != wanted:
        above = operators[one.above].name
        raise UsageError(
            f"Expected `{one.name}` to write what `{above}` reads, found `{modes[one.number]}` below "
            f"`{modes[one.above]}`"
        )


def known_mode(mode: str) -> Mode:
    """One of the four, whatever its case."""
    for known in MODES:
        if str(mode).upper() == known:
            return known
    raise UsageError(f"Expected a mode to be one of {', '.join(MODES)}, found `{mode}`")


def fill_modes(root: Node, forced: Modes, emitted: Form) -> dict[int, Mode]:
    """A mode for every operator: the forced ones, and delta wherever that fits with them."""
    found: dict[int, Mode] = {}
    operators = operators_of(root)
    for one in operators:
        written: Form = emitted if one.above is None else reads(found[one.above])
        if one.number in forced:
            mode = forced[one.number]
            found[one.number] = mode if one.above is not None else mode_of(reads(mode), emitted)
            continue
        below = [writes(forced[o.number]) for o in operators if o.above == one.number and o.number in forced]
        if len(set(below)) > 1:
            said = f"Expected all below `{one.name}` to write the same"
            raise UsageError(f"{said}, found changes of one and whole answers of another")
        found[one.number] = mode_of(below[0] if below and not one.is_scan else "delta", written)
    for one in operators:
        check_pair(operators, one, found)
    return found
