"""Keywords of the engine that say how much memory joins without windows may take, and where else rows go."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.engine.rows.errors import PenstockWarning, UsageError

if TYPE_CHECKING:
    from penstock.engine.ordered_memory.memory_rules import MemoryRules
    from penstock.engine.plan.plan import PlanNode

UNITS = {"": 0, "b": 0, "byte": 0, "bytes": 0, "kb": 10, "mb": 20, "gb": 30, "tb": 40}
MOST = 1 << 60


@dataclass(frozen=True, eq=False)
class MemoryOptions:
    """As they were said, and what follows from them."""

    disorder: str
    memory_limit: str | int | None
    spool: str | None
    spool_limit: str | int | None
    rules: MemoryRules

    @property
    def said(self) -> dict[str, Any]:
        """By keyword."""
        return {
            "disorder": self.disorder,
            "memory_limit": self.memory_limit,
            "spool": self.spool,
            "spool_limit": self.spool_limit,
        }

    def warn_of(self, query: str, plan: PlanNode) -> None:
        """Say so if a query's join keeps all in memory, whatever was said here."""
        if not self.rules.is_needed:
            return
        from penstock.engine.ordered_memory.all_in_memory import all_in_memory
        from penstock.engine.plan.plan import OrderedJoinNode
        from penstock.engine.plan.plan_parts import plan_nodes

        joins = (node for node in plan_nodes(plan) if isinstance(node, OrderedJoinNode))
        for why in {why for node in joins if (why := all_in_memory(node))}:
            said = "memory_limit" if self.memory_limit is not None else f"disorder=`{self.disorder}`"
            text = f"Expected a join that {said} is for, found {why} in query `{query}`"
            warnings.warn(f"{text}: all that can be met stays in memory", PenstockWarning, stacklevel=2)

    def before_checkpoint(self) -> None:
        """What is on the disk stays as long as the checkpoint that is made now may be asked for."""
        if self.rules.folder is not None:
            self.rules.folder.name_all()

    def no_checkpoint(self) -> None:
        """It could not be written."""
        if self.rules.folder is not None:
            self.rules.folder.forget_last()

    def after_restoring(self, source: str) -> None:
        """Go on with what the checkpoint has on the disk."""
        if self.rules.folder is not None:
            self.rules.folder.take_over(source)


def check_memory(
    disorder: str,
    memory_limit: str | int | None,
    spool: str | os.PathLike[str] | None,
    spool_limit: str | int | None,
) -> MemoryOptions:
    """Keywords that fit together, or a UsageError; `disorder` is a word that is known."""
    from penstock.engine.ordered_memory.memory_rules import SPOOLS, MemoryRules
    from penstock.engine.spool.spool_folder import SpoolFolder
    from penstock.optimizer.costs.ordered_memory import OrderedMemory

    rows, size = None, None
    if memory_limit is not None:
        rows, size = read_limit("memory_limit", memory_limit)
    if spool is None and disorder in SPOOLS:
        raise UsageError(f"Expected spool=FOLDER with disorder=`{disorder}`, found none")
    if spool is None and spool_limit is not None:
        raise UsageError("Expected spool=FOLDER with spool_limit, found none")
    most = None
    if spool_limit is not None:
        of_rows, most = read_limit("spool_limit", spool_limit)
        if of_rows is not None:
            raise UsageError(f"Expected spool_limit as bytes such as `10 GB`, found `{spool_limit}`")
    folder = None
    if spool is not None:
        if not isinstance(spool, str | os.PathLike):
            raise UsageError(f"Expected spool as the path of a folder, found {type(spool).__name__}")
        if not os.fspath(spool) or "\0" in os.fspath(spool):
            raise UsageError(f"Expected spool as the path of a folder, found `{os.fspath(spool)!r}`")
        if disorder == "auto" and memory_limit is None:
            wanted = "memory_limit, or disorder=`dbf` or `hybrid`,"
            raise UsageError(f"Expected {wanted} with spool, found neither")
        folder = SpoolFolder(os.path.abspath(os.fspath(spool)), most)
    rules = MemoryRules(OrderedMemory(), disorder, rows, size, folder)  # type: ignore[arg-type]
    path = None if spool is None else os.fspath(spool)
    return MemoryOptions(disorder, memory_limit, path, spool_limit, rules)


def read_limit(option: str, value: object) -> tuple[int | None, int | None]:
    """Rows or bytes: `100000 rows`, `200 MB`, or an integer of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST:
        return None, value
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", str(value).strip().lower().replace(",", ""))
    if isinstance(value, str) and found is not None:
        number, unit = float(found[1]), found[2]
        if unit in ("row", "rows") and number.is_integer() and 1 <= number < MOST:
            return int(number), None
        if unit in UNITS and 1 <= number * (1 << UNITS[unit]) < MOST:
            return None, int(number * (1 << UNITS[unit]))
    known = "`200 MB`, or an integer of bytes"
    if option == "memory_limit":
        known = "`200 MB` or `100000 rows`, or an integer of bytes"
    raise UsageError(f"Expected {option} such as {known}, found `{value!r}`")
