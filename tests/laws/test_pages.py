"""The pages of docs/: every example runs, every page can be found, every link leads somewhere.

PENSTOCK_REWRITE=1 writes what came into the pages, for review. Pages for Spark run with the tests of Spark.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from run_page import ROOT, Block, PageRun, blocks_of, matches, run_page

DOCS = ROOT / "docs"
DESIGN = tuple(f"design/{path.name}" for path in sorted((ROOT / "docs" / "design").glob("*.md")))
REFERENCES = ("LANGUAGE.md", "FIGURES.md", "TESTS.md", "rooms.md", "glossary.md", *DESIGN)
"""What is written in tables and fragments, and checked by tests of its own; LANGUAGE is an index."""
SITE = (ROOT / "mkdocs.yml").read_text()
REWRITE = bool(os.environ.get("PENSTOCK_REWRITE"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
LONGEST_LINE = 100


def all_pages() -> list[str]:
    return sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def pages_run(of_spark: bool) -> list[str]:
    """Pages whose examples run, those for Spark or all others."""
    shown = [page for page in all_pages() if page not in REFERENCES]
    return [page for page in shown if ("from penstock.connectors.spark" in text_of(page)) == of_spark]


@pytest.mark.parametrize("page", pages_run(of_spark=False))
def test_examples(page: str, tmp_path: Path) -> None:
    run = run_page(f"docs/{page}", tmp_path, REWRITE)
    assert run.blocks_run >= 1
    assert run.lines_shown >= 1


def test_the_pages_that_are_asked_for() -> None:
    """A page that is lost would make no test fail by itself."""
    there = set(pages_run(of_spark=False))
    assert {"index.md", "tutorial.md", "explain.md"} <= there
    assert sum(page.startswith("how-to/") for page in there) >= 7
    assert sum(page.startswith("explanation/") for page in there) >= 3
    assert sum(page.startswith("reference/") for page in there) >= 27
    assert pages_run(of_spark=True) == ["how-to/on-spark.md", "reference/spark.md"]


# -- the site ---------------------------------------------------------------------------------------------


def in_navigation() -> list[str]:
    nav = SITE.split("\nnav:\n")[1].split("\n\n")[0]
    return re.findall(r"^ +- [^:]+: (\S+\.md)$", nav, re.M)


def test_every_page_is_in_the_navigation() -> None:
    assert sorted(in_navigation()) == all_pages()


def test_titles() -> None:
    for page in all_pages():
        assert re.match(r"# \S", text_of(page)), page


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", re.sub(FENCED, "", text), re.M)


FENCED = re.compile(r"^```.*?^```$", re.S | re.M)


def anchors(text: str) -> set[str]:
    """What a heading is called in a link: on the site and, if that differs, where the file is read."""
    found = set()
    for heading in headings(text):
        plain = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        site, file = re.sub(r"[-\s]+", "-", plain), plain.replace(" ", "-")
        if site == file:  # else a link would work in one of them only
            found.add(site)
    return found


@pytest.mark.parametrize("page", all_pages())
def test_links(page: str) -> None:
    for target in LINK.findall(re.sub(FENCED, "", text_of(page))):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (DOCS / page).parent / name if name else DOCS / page
        assert path.resolve().is_relative_to(DOCS), f"{page}: `{target}` is not a part of the site"
        assert path.exists(), f"{page}: `{target}` leads nowhere"
        assert not anchor or anchor in anchors(path.read_text()), f"{page}: no heading for `{target}`"


def test_lines_of_code_fit() -> None:
    for page in all_pages():
        for block in blocks_of(text_of(page)) if page not in REFERENCES else ():
            longest = max(map(len, block.text.splitlines()))
            assert not block.language or longest <= LONGEST_LINE, f"{page}, line {block.line}"


# -- EXPLAIN's words --------------------------------------------------------------------------------------


def explained(text: str) -> list[str]:
    """What stands in the first column of tables."""
    return re.findall(r"^\| (.*?) \| ", text, re.M)


def test_words_of_explain_are_said() -> None:
    """Each is part of the example's output, or else of a text in the code."""
    page, others = text_of("explain.md").split("## Other words")
    shown = "".join(block.text for block in blocks_of(page) if not block.language)
    for words in explained(page):
        for part in re.findall(r"[`*]([^`*]+)[`*]", words):
            for piece in re.split(r" ?\.\.\.\)?", part):
                assert piece in shown, f"`{part}` is explained and not shown"
    code = "".join(path.read_text() for path in (ROOT / "optimizer" / "explain").glob("*.py"))
    rare = [re.split(r" (?:s|\.\.\.|sharing)\b| \.\.\.", words.strip("`"))[0] for words in explained(others)]
    assert len(rare) >= 4
    for part in rare:
        assert part in code, f"`{part}` is explained, and nobody says it"


# -- the tests themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "is_so"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n\nb  \n", "a\nb\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "b\na\n", False),
        ("busy … s\n", "busy 0.2 s\n", True),
        ("busy … s\n", "busy 0.2 s, 3 rows\n", False),
    ],
)
def test_what_is_shown(shown: str, printed: str, is_so: bool) -> None:
    assert matches(shown, printed) == is_so


def wrong_page(text: str, folder: Path) -> None:
    run = PageRun("a page", folder)
    for block in blocks_of(text):
        run.take(block)
    run.must_be_shown()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n```\n2\n```\n", "line 4: the page shows\n2"),
        ("```python\nprint(1)\n```\n", "does not show\n1"),
        ("```python\n1 // 0\n```\n", "ZeroDivisionError"),
        ("```sh\nfalse; echo no >&2; exit 1\n```\n", "does not show\nno"),
        ("```sh\nmake nothing\n```\n", "no target for `make nothing`"),
        ("```sh\npip install 'penstock[nothing]'\n```\n", "no `nothing` to install"),
        ("```\n1\n```\n", "nobody has printed"),
        ("```sql\nSELECT 1\n```\n", "nobody runs `sql`"),
        (" ```python\nprint(1)\n ```\n", "2 fences, 0 blocks"),
    ],
)
def test_a_wrong_page_is_found(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        wrong_page(text, tmp_path)


def test_blocks() -> None:
    text = 'x\n```sql title="q.sql"\nSELECT 1\n```\n'
    assert blocks_of(text) == [Block("sql", "q.sql", "SELECT 1\n", 2, (23, 32))]
