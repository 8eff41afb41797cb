"""Who asks, for tests of readers without a plan at work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Asker:
    name: str
    queries: tuple[Asker, ...] = ()
