"""A round of `make draws`, as a plugin of pytest's: drawn tests alone, in any order, until time is up.

    python -m pytest -p draws.note_failures --hypothesis-seed 7 --until 1700000000 --times 5

What a test fails on is written into the file of named cases, once for each test.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import is_hypothesis_test, settings

from draws.named_cases import NAMED, NamedCase, add_case, read_cases

CHOICES = re.compile(r"@reproduce_failure\('[^']*', b'([^']*)'\)")
SETTINGS = "_hypothesis_internal_use_settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--until", type=float, default=float("inf"), help="seconds since 1970")
    parser.addoption("--times", type=int, default=1, help="as many draws as a test makes otherwise")
    parser.addoption("--named", type=Path, default=NAMED, help="the file of named cases")
    parser.addoption("--without", action="append", default=[], help="tests that have failed already")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    failed = set(config.getoption("without"))
    drawn = [
        item
        for item in items
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj) and id_of(item) not in failed
    ]
    for test in {item.obj for item in drawn}:
        known = getattr(test, SETTINGS)
        draws = known.max_examples * config.getoption("times")
        setattr(test, SETTINGS, settings(known, max_examples=draws, print_blob=True))
    Random(config.getoption("--hypothesis-seed")).shuffle(drawn)
    items[:] = drawn


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if time.time() > item.config.getoption("until"):
        item.session.shouldstop = "time is up"
    return (yield)


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object]) -> None:
    assert call.excinfo is not None, "called for an exception"
    if not isinstance(node, pytest.Function):
        return  # a file that cannot be collected
    error = call.excinfo.value
    choices = [found for one in everything(error) for found in CHOICES.findall(one)]
    path, test = node.config.getoption("named"), id_of(node)
    known = [case for case in read_cases(path) if case.test == test]
    if choices and all(case.choices != choices[0] for case in known):
        wrong = f"{type(error).__name__}: {error}".splitlines()[0]
        name = f"{node.originalname.removeprefix('test_').replace('_', ' ')}, {len(known) + 1}"
        add_case(NamedCase(name, test, wrong, choices[0]), path)


def id_of(item: pytest.Item) -> str:
    return f"tests/{item.nodeid.removeprefix('tests/')}"


def everything(error: BaseException) -> Iterator[str]:
    """What was noted of an error, and of those that are in it."""
    yield from getattr(error, "__notes__", ())
    for one in getattr(error, "exceptions", ()):
        yield from everything(one)
