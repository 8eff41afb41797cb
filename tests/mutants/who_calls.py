"""Which tests run which function, and how long they take: a plugin of pytest's.

    python -m pytest -p mutants.who_calls --calls folder ...

Writes a file {function: {test: seconds}} for each file of tests as soon as it is through, a function as
`file:name`, so that what has been learned outlives edits. Tests that fail, or take longer than MOST_SECONDS,
are of no use here. Drawn tests draw FEW_CASES while they are looked at. All that they would draw takes
longer, but not as many times: the first case loads what is compiled.
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
from hypothesis import is_hypothesis_test, settings

ROOT = Path(__file__).parents[2]
ENGINE = "/engine/"
MOST_SECONDS = 20.0
FEW_CASES = 8
SETTINGS = "_hypothesis_internal_use_settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--calls", default="calls")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watch(Path(config.getoption("calls"))))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes last: whoever stops half-way has learned most files."""
    items.reverse()
    drawn = {item.obj for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}
    for test in drawn:
        known = getattr(test, SETTINGS)
        test.cases = known.max_examples
        setattr(test, SETTINGS, settings(known, max_examples=min(FEW_CASES, known.max_examples)))


def times_drawn(item: pytest.Item) -> float:
    """How many times as long the test takes as it did here, about."""
    cases = getattr(getattr(item, "obj", None), "cases", 0)
    return max(1.0, cases / FEW_CASES) ** 0.5


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

        def note(frame: FrameType, _event: str, _: Any) -> None:
            seen.add(frame.f_code)  # no line of it is of interest: returns no function that would be told

        began = time.process_time()  # whatever else the machine does
        sys.settrace(note)
        try:
            done = yield
        finally:
            sys.settrace(None)
        took = time.process_time() - began
        if took < MOST_SECONDS:
            took *= times_drawn(item)
            for code in seen:
                if ENGINE in code.co_filename and "<" not in code.co_name:  # "<": with the function it is in
                    self.found.setdefault(place_of(code), {})[item.nodeid] = took
        return done

    @pytest.hookimpl
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path:
            (self.folder / f"{item.path.stem}.json").write_text(json.dumps(self.found))
            self.found = {}
