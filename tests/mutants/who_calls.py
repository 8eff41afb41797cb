"""Which tests run which function, and how long they take: a plugin of pytest's.

    python -m pytest -p mutants.who_calls --calls calls.json ...

Writes {function: {test: seconds}}, a function as `file:line of its def`. A test that has been seen to take
longer than MOST_SECONDS is of no use here.
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
    parser.addoption("--calls", default="calls.json")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watch(Path(config.getoption("calls"))))


def place_of(code: CodeType) -> str:
    """File and line of a function; the same whether it came by the link or not."""
    return f"{Path(code.co_filename).resolve().relative_to(ROOT)}:{code.co_firstlineno}"


class Watch:
    """Notes what is called while a test runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[CodeType, dict[str, float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        seen: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                seen.add(frame.f_code)

        began = time.perf_counter()
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            took = time.perf_counter() - began
            if took < MOST_SECONDS:
                for code in seen:
                    if ENGINE[0] in code.co_filename:
                        self.found.setdefault(code, {})[item.nodeid] = took

    def pytest_sessionfinish(self) -> None:
        calls: dict[str, dict[str, float]] = {}
        for code, tests in self.found.items():
            if "<" not in code.co_name:  # comprehensions go with their function
                calls.setdefault(place_of(code), {}).update(tests)
        self.path.write_text(json.dumps(calls))
