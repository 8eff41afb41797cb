"""Whose a folder of states is: a file in it, `owner.json`, says which query of Spark's is at work there.

Two at work on one folder would overwrite each other's states. So who starts writes the file where there is
none, and who finds another's asks whether that one is still at work:

    the same query of Spark's            not at work any more: of one checkpoint, Spark runs but one
    another query, of this process       if Spark still runs it
    of another process of this host      if there is a process of that number that began when that one did
    of another host, or of no process    nobody knows: refused, until somebody removes the file

Whether it is the same query is known when its first batch comes; what this process runs is seen when the sink
is made. Who is not at work any more is displaced. And before it writes anything, each looks whether the file
still has its mark: of two who displaced the same at once, or do not see each other's processes, one goes on.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from penstock.engine.rows.errors import UsageError

from .state_folder import StateFolder

NAME = "owner.json"
IsRunning = Callable[[str], bool]
"""Whether a query of Spark's is at work in this process."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A query of Spark's, none if the sink was called by hand, and the process it runs in."""

    query: str | None
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    began: str | None = field(default_factory=lambda: began(os.getpid()))
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of_query(cls, query: str) -> Owner:
        """Of whatever process works for the query: Spark's Python workers take turns."""
        return cls(query, "", 0, None)

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        query = f"Spark query `{self.query}`" if self.query else "a sink"
        return f"{query} in process {self.pid} on `{self.host}`" if self.pid else query

    def is_at_work(self, other: Owner, is_running: IsRunning) -> bool:
        """As `other` sees it."""
        if self.query is not None and self.query == other.query:
            return False
        if self.host != other.host:
            return True
        if self.pid == other.pid and self.began == other.began:
            return self.query is not None and is_running(self.query)
        return self.began is not None and began(self.pid) == self.began


def decode(data: bytes | None) -> Owner | None:
    """The owner in a file; None if there is none, or nothing that says so."""
    try:
        return None if data is None else Owner(**json.loads(data))
    except (ValueError, TypeError):
        return None


def began(pid: int) -> str | None:
    """When a process began, as its machine says: differs for every process that ever had the number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {stat.rpartition(')')[2].split()[19]}"
    except OSError:
        pass
    try:  # not Linux, or gone
        found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
        return found.stdout.strip() or None
    except OSError:
        return None


class Claim:
    """Our mark on a folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._owner: Owner | None = None
        self._is_lost = False
        """Somebody else has it; only a query of Spark's that is started anew may take it back."""

    def look(self, is_running: IsRunning) -> None:
        """UsageError if a query that this process runs has the folder; of others it may be the same query."""
        found, here = decode(self._folder.read(NAME)), Owner(None)
        if found is None or found.query is None or found != replace(here, query=found.query, mark=found.mark):
            return
        if is_running(found.query):
            raise self._in_use(found)

    def make(self, mine: Owner, is_running: IsRunning) -> None:
        """The folder is ours from now on; UsageError if another is at work there."""
        if self._owner is not None and mine.query in (None, self._owner.query) and self._is_ours():
            return
        if self._is_lost and mine.query is None:
            raise self._lost()
        if not self._folder.create(NAME, mine.encoded()):
            found = decode(self._folder.read(NAME))
            if found is not None and found.is_at_work(mine, is_running):
                raise self._in_use(found)
            self._folder.write(NAME, [mine.encoded()])
        self._owner, self._is_lost = mine, False
        self.check()

    def check(self) -> None:
        """Raises UsageError if the folder is another's by now."""
        if self._owner is not None and not self._is_ours():
            self._owner, self._is_lost = None, True
            raise self._lost()

    def _in_use(self, found: Owner) -> UsageError:
        return UsageError(
            f"Expected `{self._folder}` to be the state of one sink, found it in use by {found}: "
            f"stop that, or give this a folder of its own; if that has ended, remove `{NAME}` there"
        )

    def _lost(self) -> UsageError:
        found = decode(self._folder.read(NAME))
        by = "another that has ended" if found is None else found
        return UsageError(
            f"Expected `{self._folder}` to be the state of this sink, found it taken over by {by}"
        )

    def release(self) -> None:
        """Somebody else may have it."""
        if self._owner is not None and self._is_ours():
            self._folder.remove(NAME)
        self._owner = None

    def _is_ours(self) -> bool:
        return decode(self._folder.read(NAME)) == self._owner
