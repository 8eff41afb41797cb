"""What drawn tests draw: the same in every run, whatever is loaded; and named cases are replayed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from draws.named_cases import NAMED, NamedCase, add_case, read_cases
from hypothesis import given, is_hypothesis_test, settings
from hypothesis import strategies as st

TESTS = Path(__file__).parents[1]
is_fixed = pytest.mark.skipif(
    os.environ.get("PENSTOCK_DRAWS", "fixed") != "fixed", reason="drawn tests are asked for other cases"
)
FAILS_NOW_AND_THEN = """
import pytest
from hypothesis import given, strategies as st

@pytest.mark.parametrize("most", [10**6, 900_000])
@given(n=st.integers(0, 999_999))
def test_no_number_is_greater(most, n):
    assert n < most
"""


@is_fixed
def test_every_drawn_test_draws_the_same_in_every_run(request: pytest.FixtureRequest) -> None:
    others = [
        item.nodeid
        for item in request.session.items
        if is_hypothesis_test(item.obj)  # type: ignore[attr-defined]
        and not item.obj._hypothesis_internal_use_settings.derandomize  # type: ignore[attr-defined]
    ]
    assert others == []


@is_fixed
def test_what_is_drawn_does_not_depend_on_what_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[list[int]] = []

    @settings(max_examples=300)
    @given(st.integers(0, 10**9))
    def draw(number: int) -> None:
        drawn[-1].append(number)

    for number in range(2):
        if number:
            (tmp_path / "constants_of.py").write_text("numbers = 777_000_111, 777_000_222, 777_000_333")
            module = ModuleType("constants_of")
            module.__file__ = str(tmp_path / "constants_of.py")
            monkeypatch.setitem(sys.modules, "constants_of", module)
            monkeypatch.chdir(tmp_path)
        drawn.append([])
        draw()
    assert drawn[0] == drawn[1]


def test_named_cases_name_tests() -> None:
    for case in read_cases():
        file, _, name = case.test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (TESTS.parent / file).read_text(), case


def test_a_failure_becomes_a_case_that_is_replayed(tmp_path: Path) -> None:
    """Once for each test; and when the test is mended, it passes with the case."""
    (tmp_path / "conftest.py").write_text(
        "from draws.named_cases import *\n"
        "def pytest_collection_modifyitems(items):\n"
        "    add_named_items(items, read_cases(Path('named.txt')))\n"
    )
    test, named = tmp_path / "test_numbers.py", tmp_path / "named.txt"
    test.write_text(FAILS_NOW_AND_THEN)
    for seed in (1, 2):
        asked = f"--hypothesis-seed={seed}", "--times=9", "--named=named.txt"
        run(tmp_path, "-p", "draws.note_failures", *asked)
    (case,) = read_cases(named)
    assert case.name == "no number is greater, 1"
    assert case.test == "tests/test_numbers.py::test_no_number_is_greater[900000]"
    assert "900000" in case.wrong
    replayed = "test_no_number_is_greater, no number is greater, 1[900000]"
    assert f"FAILED test_numbers.py::{replayed}" in run(tmp_path, "--hypothesis-seed=3")
    test.write_text(FAILS_NOW_AND_THEN.replace("n < most", "n <= most"))
    assert f"PASSED test_numbers.py::{replayed}" in run(tmp_path, "--hypothesis-seed=3", "-k=numbers")


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-rA", "--rootdir=.", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    ).stdout


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    cases = [NamedCase(f"a, {n}", "tests/test_a.py::test_b[c: d]", "ValueError: no", "AXic=") for n in (1, 2)]
    for case in cases:
        add_case(case, tmp_path / "named.txt")
    assert read_cases(tmp_path / "named.txt") == cases
    assert NAMED.exists()
