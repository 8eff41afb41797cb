"""Which tests run which function, and how long they take: a plugin of pytest's.

    python -m pytest -p mutants.who_calls --calls folder ...

Writes a file {function: {test: seconds}} for each file of tests as soon as it is through, a function as
`file:name`, so that what has been learned outlives edits. Tests that fail, or take longer than MOST_SECONDS,
are of no use here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ("/engine/",)
MOST_SECONDS = 20.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--calls", default="calls")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watch(Path(config.getoption("calls"))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes last: whoever stops half-way has learned most files."""
    items.reverse()


def place_of(code: CodeType) -> str:
    """File and name of a function; the same whether it came by the link or not."""
    return f"{Path(code.co_filename).resolve().relative_to(ROOT)}:{code.co_qualname}"


class Watch:
    """Notes what is called while a test runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, dict[str, float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        seen: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                seen.add(frame.f_code)

        began = time.perf_counter()
        sys.setprofile(note)
        try:
            done = yield
        finally:
            sys.setprofile(None)
        took = time.perf_counter() - began
        if took < MOST_SECONDS:
            for code in seen:
                if (
                    ENGINE[0] in code.co_filename and "<" not in code.co_name
                ):  # comprehensions: with their function
                    self.found.setdefault(place_of(code), {})[item.nodeid] = took
        return done

    @pytest.hookimpl
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path:
            (self.folder / f"{item.path.stem}.json").write_text(json.dumps(self.found))
            self.found = {}
