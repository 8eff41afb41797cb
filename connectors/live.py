"""Inputs that come as they are written: pipes, terminals, standard input beside others.

Each is read in a thread of its own, from the moment on at which all are known. So whoever writes two pipes
may open and fill them in any order, and an input that is silent holds none that has rows:

    writer      a a a a a b b ...         nothing reads `b` first and waits for it while `a` is full
    threads     a: ■ ■ ■ ■    b: ·        rows wait here, so many at most, and more if all else is silent

A thread waits in `poll` alone, with a pipe that is closed when all is over: none is left behind in a read.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batch import Batch
    from .inputs import Input

STANDARD_INPUT = "-"
AHEAD_BYTES = 64 << 20  # of one input, waiting to be asked for
LOOK_S = 0.2  # between two looks at whether all is over
ENDING_S = 5.0


def is_live(path: str) -> bool:
    """Whether what a path names comes as it is written, and may be waited for."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if path == STANDARD_INPUT else os.stat(path).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


class Arrivals:
    """Where the threads of a run's live inputs tell that something has come; who reads waits here."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.is_starving = False
        """Whether nobody who may go on has anything: then others are read on, however much waits."""
        self.is_over = False
        self.wake, self._end = os.pipe()
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="penstock input", daemon=True)
        self._threads.append(thread)
        thread.start()

    def starve(self) -> None:
        """Nobody has anything who may go on; with the lock held."""
        if not self.is_starving:
            self.is_starving = True
            self.changed.notify_all()

    def go_on(self) -> None:
        """Somebody has something who may go on; with the lock held."""
        self.is_starving = False

    def close(self) -> None:
        """No thread reads on."""
        if self.is_over:
            return
        with self.changed:
            self.is_over = True
            self.changed.notify_all()
        os.close(self._end)
        for thread in self._threads:
            thread.join(ENDING_S)
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self.wake)


class LiveInput:
    """What Input is, read in a thread; errors are raised to whoever reads, in their place."""

    def __init__(self, make: Callable[[int], Input], arrivals: Arrivals) -> None:
        """make: opens the input, given what to look at while waiting for bytes."""
        self._make = make
        self._arrivals = arrivals
        self._come: deque[Batch | BaseException | None] = deque()
        self._held_bytes = 0
        self._rows = 0
        arrivals.start(self._work)

    @property
    def is_ready(self) -> bool:
        """Whether there are rows, an error or the end."""
        return bool(self._come)

    def read(self) -> Batch | None:
        """The next rows, None at the end; waits for them."""
        arrivals = self._arrivals
        with arrivals.changed:
            while not self._come:
                arrivals.starve()
                arrivals.changed.wait(LOOK_S)
            arrivals.go_on()
            found = self._come.popleft()
            if isinstance(found, BaseException):
                self._come.append(None)
                raise found
            if found is None:
                self._come.append(None)
                return None
            self._held_bytes -= found.data.nbytes
            self._rows += len(found)
            arrivals.changed.notify_all()
            return found

    def _work(self) -> None:
        try:
            source = self._make(self._arrivals.wake)
            try:
                while self._has_room() and (batch := source.read()) is not None:
                    self._give(batch)
            finally:
                source.close()
            self._give(None)
        except BaseException as error:
            self._give(error)

    def _has_room(self) -> bool:
        """Waits until there is; not if all is over."""
        arrivals = self._arrivals
        with arrivals.changed:
            while self._held_bytes > AHEAD_BYTES and not arrivals.is_starving and not arrivals.is_over:
                arrivals.changed.wait()
            return not arrivals.is_over

    def _give(self, found: Batch | BaseException | None) -> None:
        with self._arrivals.changed:
            self._come.append(found)
            if found is not None and not isinstance(found, BaseException):
                self._held_bytes += found.data.nbytes
            self._arrivals.changed.notify_all()

    bytes_total = None  # nobody knows

    @property
    def rows_decoded(self) -> int:
        return self._rows

    @property
    def bytes_done(self) -> float:
        return 0.0

    def close(self) -> None:
        self._arrivals.close()


class LiveFile(io.RawIOBase):
    """Bytes of a pipe; the end, too, when all is over."""

    def __init__(self, path: str, wake: int) -> None:
        # A named pipe is opened whether somebody writes it already or not.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        self._handle = os.dup(sys.stdin.fileno()) if path == STANDARD_INPUT else os.open(path, flags)
        self._wake = wake
        self._poll = select.poll()
        for handle in (self._handle, wake):
            self._poll.register(handle, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            if any(handle == self._wake for handle, _ in self._poll.poll()):
                return 0
            try:
                return os.readv(self._handle, [buffer])
            except BlockingIOError:
                continue

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()


def open_live(path: str, wake: int) -> io.BufferedReader:
    """The bytes of a live input."""
    return io.BufferedReader(LiveFile(path, wake), 1 << 20)
