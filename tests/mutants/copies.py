"""What tests say to an edit, in a copy (fork) of a process that has everything loaded.

Only the code object of the edited function is exchanged, so a copy costs nothing and most edits are found
within a second or two. A test that fails in a copy without any edit says nothing, so whichever test finds an
edit is also run in a copy without one, once.
"""

from __future__ import annotations

import importlib
import inspect
import os
import signal
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import CodeType, FunctionType, ModuleType

import pytest

from .edits import Edit, edited

ROOT = Path(__file__).parents[2]
FOUND, SURVIVED, TOO_LONG = "found", "survived", "found (took too long)"
NOT_RUN, NOT_TRIED = "no test runs it", "could not be tried"
PASSED, FAILED, NO_TEST_FAILED_IT = 0, 1, 70
"""How a copy ends."""
PATIENCE_S = 20
PATIENCE_TIMES = 10
"""A test that takes so much, and so many times as long as it does otherwise, will never end."""


class Copies:
    """Edits, tried one after the other; `calls` says which tests run a function and how long they take."""

    def __init__(
        self, items: dict[str, pytest.Item], calls: dict[str, dict[str, float]], seconds: float
    ) -> None:
        self._items = items
        self._calls = calls
        self._seconds = seconds
        self._sound: dict[str, bool] = {}

    def try_edit(self, edit: Edit) -> tuple[str, str]:
        """The outcome, and the test that found it."""
        tests = self._calls.get(f"{edit.file}:{edit.function}", {})
        while True:
            chosen = self._choose(tests, Path(edit.file).stem)
            if not chosen:
                return NOT_RUN, ""
            outcome, test = self._run(edit, chosen)
            if outcome in (SURVIVED, NOT_TRIED) or self._is_sound(test, chosen[test]):
                return outcome, test

    def _choose(self, tests: dict[str, float], name: str) -> dict[str, float]:
        """Those of that name and the quickest first, until the time is used up; those that fail without any
        edit are left out."""
        sound = [test for test in tests if test in self._items and self._sound.get(test, True)]
        sound.sort(key=lambda test: (f"test_{name}" not in test, tests[test]))
        chosen: dict[str, float] = {}
        budget = max(self._seconds, min((tests[test] for test in sound), default=0.0))
        for test in sound:
            if tests[test] <= budget:
                chosen[test] = tests[test]
                budget -= tests[test]
        return chosen

    def _is_sound(self, test: str, took: float) -> bool:
        """Whether it passes in a copy without an edit."""
        if test not in self._sound:
            self._sound[test] = self._run(None, {test: took})[0] == SURVIVED
        return self._sound[test]

    def _run(self, edit: Edit | None, tests: dict[str, float]) -> tuple[str, str]:
        """What becomes of the tests in a copy with this edit, and which of them ran last."""
        with TemporaryFile() as said:
            child = os.fork()
            if not child:
                run_child(edit, {self._items[test]: took for test, took in tests.items()}, said.fileno())
            _, status = os.waitpid(child, 0)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what it has left behind
            said.seek(0)
            lines = said.read().decode().splitlines()
        return outcome_of(status) if lines else NOT_TRIED, lines[-1] if lines else ""


def run_child(edit: Edit | None, tests: dict[pytest.Item, float], said: int) -> None:
    """Runs them in their order, and says before each which it is."""
    status = NO_TEST_FAILED_IT
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        if edit is not None:
            exchange(edit)
        following = [*list(tests)[1:], None]
        for (item, took), after in zip(tests.items(), following, strict=True):
            signal.alarm(round(PATIENCE_S + PATIENCE_TIMES * took))
            os.write(said, f"{item.nodeid}\n".encode())
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if item.session.testsfailed:
                os._exit(FAILED)
        status = PASSED
    finally:
        os._exit(status)


def exchange(edit: Edit) -> None:
    """The function that is edited gets its new code."""
    functions = [one for one in live_functions(edit.file) if one.__qualname__ == edit.function]
    path = ROOT / edit.file
    made = [
        code for code in codes(compile(edited(path, edit.number), str(path), "exec"))
        if code.co_qualname == edit.function
    ]  # fmt: skip
    lines = {code.co_firstlineno: code for code in made}
    for function in functions:
        if function.__code__.co_firstlineno in lines:
            function.__code__ = lines.pop(function.__code__.co_firstlineno)
    if len(made) == len(lines):
        raise LookupError(f"expected a function `{edit.function}` in {edit.file}, found none that is loaded")


def live_functions(file: str) -> list[FunctionType]:
    """All functions of a module and of its classes, without what decorators have put around them."""
    name = "penstock." + file.removesuffix(".py").replace("/", ".")
    found: list[FunctionType] = []

    def collect(holder: ModuleType | type) -> None:
        for value in vars(holder).values():
            if isinstance(value, type) and value.__module__ == name:
                collect(value)
            parts = [getattr(value, part, None) for part in ("fget", "fset", "__func__", "func")]
            for one in [value, *parts]:
                bare = inspect.unwrap(one) if callable(one) else one
                if isinstance(bare, FunctionType) and bare.__module__ == name:
                    found.append(bare)

    collect(importlib.import_module(name))
    return found


def codes(code: CodeType) -> list[CodeType]:
    found = [code]
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found += codes(one)
    return found


def outcome_of(status: int) -> str:
    """A copy that a signal has ended (memory that is not its own, say) has been found, too."""
    if os.WIFSIGNALED(status):
        return TOO_LONG if os.WTERMSIG(status) == signal.SIGALRM else FOUND
    return {PASSED: SURVIVED, FAILED: FOUND}.get(os.WEXITSTATUS(status), NOT_TRIED)
