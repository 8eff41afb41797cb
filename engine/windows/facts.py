"""What the store of a stream's windows says of itself, and of one query's window, as a plain record."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.flow.facts import Work, work_of

from .window_member import WindowMember
from .window_store import WindowStore


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """found: rows given to the window so far; readers: of the other windows there, each once."""

    work: Work
    stream: str
    found: int
    readers: tuple[str, ...]


def facts_of_window(store: WindowStore, member: WindowMember) -> WindowFacts:
    readers = dict.fromkeys(name for one in store.members if one is not member for name in one.queries)
    return WindowFacts(work_of(store), store.stream, member.found, tuple(readers))
