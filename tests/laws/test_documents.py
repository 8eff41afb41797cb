"""What stands in the documents runs, and importing costs little."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.options import KNOWN

ROOT = Path(__file__).parents[2]
FOLDERS = ("penstock", "engine", "optimizer", "connectors", "cli", "bench")


def readme_blocks() -> list[tuple[str, str]]:
    """The language and text of each block of code in README.md."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)


def run_readme(of_spark: bool) -> list[tuple[str, list[str]]]:
    """What each Python block prints, and the lines of the plain blocks up to the next one.

    Blocks for Spark need its session, so they run with the tests of Spark, and only there.
    """
    names: dict[str, object] = {}
    found: list[tuple[str, list[str]]] = []
    wanted = False
    for language, text in readme_blocks():
        if language == "python":
            wanted = ("penstock.connectors.spark" in text) == of_spark
        if language == "python" and wanted:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "README.md", "exec"), names)
            found.append((printed.getvalue(), []))
        elif wanted:
            found[-1][1].extend(text.splitlines())
    return found


def count_shown(of_spark: bool) -> int:
    """Lines of output in the README, each checked to be what its block prints, in order."""
    checked = 0
    for printed, shown in run_readme(of_spark):
        lines = iter(printed.splitlines())
        for line in shown:
            if not line.startswith(("penstock ", "make ")) and line.strip(" │") != "...":
                checked += 1
                assert line in lines, f"README shows `{line}`, which does not come, or not there"
    return checked


def test_readme_shows_what_comes_out() -> None:
    """The blocks of output that follow a Python block are lines of what it prints, in order."""
    assert count_shown(of_spark=False) > 30


def test_documents_name_every_way_of_sharing() -> None:
    for name in ("README.md", "docs/LANGUAGE.md"):
        rows = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / name).read_text(), re.M)
        assert tuple(rows) == KNOWN["sharing"], name


def test_a_way_of_sharing_that_is_none() -> None:
    with pytest.raises(penstock.UsageError) as caught:
        penstock.Engine(sharing="meme-opt")
    known = ", ".join(KNOWN["sharing"])
    said = f"Expected sharing to be one of {known}, found `meme-opt`. Did you mean `mem-opt`?"
    assert str(caught.value) == said


def doctested() -> list[str]:
    """Modules that have a doctest."""
    names = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_linked = parts[0] == "penstock" and parts[1] in FOLDERS
            if not is_linked and re.search(r"^ *>>> ", path.read_text(), re.M):
                names.append(".".join(parts if parts[0] == "penstock" else ("penstock", *parts)))
    return names


@pytest.mark.parametrize("module", doctested())
def test_doctests(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_public_api_has_a_doctest() -> None:
    assert "penstock.api" in doctested()
    assert set(penstock.__all__) <= set(dir(penstock))


HEAVY = ("numba", "llvmlite", "pyspark", "sqlglot", "duckdb", "pandas", "polars", "click", "rich")


def test_import_loads_nothing_heavy() -> None:
    code = f"""if True:
        import sys
        from penstock import Engine, Query
        print([name for name in {HEAVY} if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_import_costs_about_what_pyarrow_costs() -> None:
    """Cumulative times of one process: what else the machine does hits both."""
    ratios = []
    for _ in range(3):
        command = [sys.executable, "-X", "importtime", "-c", "from penstock import Engine"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        found = re.findall(r"\| +(\d+) \| +(penstock|penstock\.api|pyarrow)$", done.stderr, re.M)
        times = {name: int(us) for us, name in found}
        ratios.append((times["penstock"] + times["penstock.api"]) / times["pyarrow"])
    assert min(ratios) <= 2
