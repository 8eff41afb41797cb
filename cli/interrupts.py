"""Ctrl-C, at a moment that leaves results whole.

A signal raises where the program is, except while results are being written: then it waits until they are.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM; the exit code says which, as a shell would."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Interrupts:
    """A context in which both signals are heard by us; outside the main thread it does nothing."""

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, _: FrameType | None) -> None:
        if self._depth:
            self._waiting = number
        else:
            raise Interrupted(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal that comes within is raised at the end."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._waiting is not None and not self._depth:
            number, self._waiting = self._waiting, None
            raise Interrupted(number)
