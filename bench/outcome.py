"""What a bench found: lines with a value and perhaps a target, data for plotting, and whether all agreed."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

from .race import Timing

COMPARE = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class Target:
    """What was set out to be reached: `>= 5` and the like."""

    relation: str
    value: float

    def is_met_by(self, value: float) -> bool:
        return bool(COMPARE[self.relation](value, self.value))

    def __str__(self) -> str:
        return f"{self.relation} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Line:
    """One number of the report. unit: `rows/s`, `x` (a ratio), `bytes`, `%` ..."""

    group: str
    name: str
    value: float
    unit: str
    target: Target | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "pass" if self.target.is_met_by(self.value) else "miss"


@dataclass(slots=True)
class Outcome:
    """A bench's result. `disagreements`: answers that should have been equal and were not; they fail it."""

    bench: str
    caption: str = ""
    lines: list[Line] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)

    def add(
        self,
        group: str,
        name: str,
        value: float,
        unit: str,
        target: Target | None = None,
        note: str = "",
    ) -> None:
        self.lines.append(Line(group, name, float(value), unit, target, note))

    def add_speeds(self, group: str, timings: dict[str, Timing], rows: int, notes: dict[str, str]) -> None:
        """Rows per second of everyone in a race: by processor time, elapsed time in the note."""
        for name, timing in timings.items():
            elapsed = f"{rows / timing.best_elapsed_s:,.0f} elapsed"
            note = f"{elapsed}; {notes[name]}" if name in notes else elapsed
            self.add(group, name, rows / timing.best_cpu_s, "rows/s", note=note)

    def compare(self, what: str, answers: dict[str, set[int]]) -> None:
        """Note a disagreement unless everyone gave one and the same answer."""
        given = {name: sorted(found) for name, found in answers.items()}
        if len({answer for found in answers.values() for answer in found}) != 1:
            self.disagreements.append(
                f"{what}: "
                + ", ".join(f"{name} {'/'.join(map(str, found))}" for name, found in given.items())
            )

    @property
    def agrees(self) -> bool:
        return not self.disagreements
