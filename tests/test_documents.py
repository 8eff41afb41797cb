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

ROOT = Path(__file__).parents[1]
FOLDERS = ("penstock", "engine", "optimizer", "connectors", "cli", "bench")


def test_readme_example_runs() -> None:
    text = (ROOT / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S)
    assert code is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code[1], "README.md", "exec"), {})
    first = printed.getvalue().splitlines()[0]
    assert first.startswith("[{'_ts'")
    assert f"```\n{first}\n```" in text, "README shows another result"


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
    code = f"import penstock, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_import_costs_about_what_pyarrow_costs() -> None:
    """Cumulative times of one process: what else the machine does hits both."""
    ratios = []
    for _ in range(3):
        command = [sys.executable, "-X", "importtime", "-c", "import penstock"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        times = {
            name: int(us) for us, name in re.findall(r"\| +(\d+) \| +(penstock|pyarrow)$", done.stderr, re.M)
        }
        ratios.append(times["penstock"] / times["pyarrow"])
    assert min(ratios) <= 2
