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
    for name in ("README.md", "docs/reference/sharing.md"):
        rows = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / name).read_text(), re.M)
        assert tuple(rows) == KNOWN["sharing"], name


def test_a_way_of_sharing_that_is_none() -> None:
    with pytest.raises(penstock.UsageError) as caught:
        penstock.Engine(sharing="meme-opt")
    known = ", ".join(KNOWN["sharing"])
    said = f"Expected sharing to be one of {known}, found `meme-opt`. Did you mean `mem-opt`?"
    assert str(caught.value) == said


PAGES = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md")]
DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
SAID_IN_CODE = re.compile(r"`([^`\n]+)`")
IS_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|txt|test|toml|json))")
FENCED = re.compile(r"^ *```.*?^ *```$", re.S | re.M)


def short_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.M)


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, *DESIGN], ids=short_name)
def test_every_file_a_page_names_exists(page: Path) -> None:
    """Paths are from the root of the repository, so that they are found and can be checked."""
    named = [one for one in SAID_IN_CODE.findall(FENCED.sub("", page.read_text())) if IS_PATH.fullmatch(one)]
    assert named or page.name == "glossary.md"
    assert [one for one in named if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *DESIGN], ids=short_name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", FENCED.sub("", page.read_text())):
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), target
        assert not anchor or anchor in map(anchor_of, headings(other)), f"{target}#{anchor}"


@pytest.mark.parametrize("page", DESIGN, ids=short_name)
def test_a_page_of_an_idea_has_an_example_a_law_and_a_place(page: Path) -> None:
    found = [one.split(":")[0] for one in headings(page)]
    assert found[1:3] == ["An example", "The law"]
    assert found[-1] == "Where it is"


def test_the_tour_is_short_and_leads_everywhere() -> None:
    """Two pages. What is longer than that is an idea with a page of its own."""
    tour = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(tour.split()) <= 1400
    assert [page.name for page in DESIGN if f"(docs/design/{page.name})" not in tour] == []


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
