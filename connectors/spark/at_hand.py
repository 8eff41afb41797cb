"""Engines that a process keeps for the next batch, so that it need not restore them.

Spark reuses its Python processes, holds on to functions it was given, and tells nobody when a query has
ended. So an engine that nobody has asked for in a while is let go; should its query go on, it is restored
from where its state is saved.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass

from penstock.api import Engine

KEPT_S = 300.0
"""Longer than most queries wait for the next batch; for the others, to restore an engine is not much."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An engine, and what tells its state from others."""

    mark: object
    engine: Engine
    since_s: float


class EnginesAtHand:
    """By place: whatever tells one engine's part in the work from others'."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._kept: dict[Hashable, Kept] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        """At work while there is an engine."""

    def keep(self, place: Hashable, mark: object, engine: Engine) -> None:
        with self._lock:
            self._kept[place] = Kept(mark, engine, time.monotonic())
            self._look_later()

    def take(self, place: Hashable, mark: object) -> Engine | None:
        """The engine, if it has this mark; taken out in any case, as it is of no use if the step fails."""
        with self._lock:
            found = self._kept.pop(place, None)
        return found.engine if found is not None and found.mark == mark else None

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._kept_s / 4, self._let_go)
            self._timer.daemon = True
            self._timer.start()

    def _let_go(self) -> None:
        """Drop what nobody has asked for; look again later, if anything is left."""
        with self._lock:
            now_s = time.monotonic()
            for place in [place for place, one in self._kept.items() if now_s - one.since_s > self._kept_s]:
                del self._kept[place]
            self._timer = None
            if self._kept:
                self._look_later()
