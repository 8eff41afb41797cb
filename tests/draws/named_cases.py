"""Cases that drawn tests once failed on, by name, replayed in every run beside the test that found them.

    a name: tests/test_file.py::test_name
        what was wrong
        = what hypothesis drew

What was drawn means something as long as the test draws the same things in the same order. A case worth
keeping for longer is written out as a test of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.errors import DidNotReproduce, InvalidArgument

NAMED = Path(__file__).parent / "named_cases.txt"
REPRODUCE = "_hypothesis_internal_use_reproduce_failure"


@dataclass(frozen=True)
class NamedCase:
    """One case: its name, the test's id, what was wrong and the choices that hypothesis made."""

    name: str
    test: str
    wrong: str
    choices: str

    def written(self) -> str:
        return f"{self.name}: {self.test}\n    {self.wrong}\n    = {self.choices}\n"


def read_cases(path: Path = NAMED) -> list[NamedCase]:
    """All cases of a file."""
    found: list[NamedCase] = []
    lines = path.read_text().splitlines() if path.exists() else []
    for number, line in enumerate(lines):
        if not line or line.startswith(("#", " ")):
            continue
        name, _, test = line.partition(": ")
        said = [one.strip() for one in lines[number + 1 : number + 3]]
        if not test or len(said) < 2 or not said[1].startswith("= "):
            raise ValueError(
                f"Expected `name: test`, what was wrong and `= choices` at line {number + 1} of {path}"
            )
        found.append(NamedCase(name, test, said[0], said[1][2:]))
    return found


def add_case(case: NamedCase, path: Path = NAMED) -> None:
    with path.open("a") as file:
        file.write("\n" + case.written())


def add_named_items(items: list[pytest.Item], cases: Iterable[NamedCase]) -> None:
    """A test for each case, right behind the one that drew it."""
    wanted: dict[str, list[NamedCase]] = {}
    for case in cases:
        wanted.setdefault(case.test, []).append(case)
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        for case in wanted.get(f"tests/{item.nodeid.removeprefix('tests/')}", ()):
            assert isinstance(item, pytest.Function), "a drawn test is a function"
            items.insert(place + 1, named_item(item, case))


def named_item(item: pytest.Function, case: NamedCase) -> pytest.Item:
    name = f"{item.originalname}, {case.name}"
    return pytest.Function.from_parent(
        item.parent,
        name=name + item.name.removeprefix(item.originalname),
        callspec=getattr(item, "callspec", None),
        callobj=replay(item.obj, case),
        fixtureinfo=item._fixtureinfo,
        originalname=name,
    )


def replay(test: Callable[..., None], case: NamedCase) -> Callable[..., None]:
    """The test with what was drawn then, and nothing else."""

    def run(**arguments: Any) -> None:
        setattr(test, REPRODUCE, (hypothesis.__version__, case.choices.encode()))
        try:
            test(**arguments)
        except DidNotReproduce:
            return  # it passes
        except InvalidArgument as error:
            pytest.skip(f"expected choices that hypothesis {hypothesis.__version__} can read: {error}")
        finally:
            setattr(test, REPRODUCE, None)

    run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
    return run
