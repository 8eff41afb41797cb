"""Seconds that an engine has been there for: they stand still between a checkpoint and its restoring."""

from __future__ import annotations

import time


class RunningClock:
    """Called for the time; only differences mean anything."""

    def __init__(self) -> None:
        self._offset = 0.0

    def __call__(self) -> float:
        return time.perf_counter() + self._offset

    def __getstate__(self) -> dict[str, float]:
        return {"now": self()}

    def __setstate__(self, state: dict[str, float]) -> None:
        self._offset = state["now"] - time.perf_counter()
