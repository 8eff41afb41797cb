"""The reference says all there is: functions with what they give, options, errors, calls, commands.

A function's example is asked of the row that its page shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click
import pytest
from test_pages import DOCS, FENCED, all_pages, text_of

import penstock
from penstock.cli.main import main
from penstock.engine.rows import errors
from penstock.optimizer.names.function_names import FUNCTION_NAMES, TIME_PARTS
from penstock.options import KNOWN

PAGES = sorted(page for page in all_pages() if page.startswith("reference/"))
SHORT = {"--input": "-i", "--output": "-o", "--quiet": "-q"}
ROW = {
    "ts": ["2026-01-05 09:30:15.25"], "k": [7], "x": [2.5], "ok": [True], "name": ["Ann"], "gone": [None],
}  # fmt: skip


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Each table: its heads, and its rows."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        heads, _, *rows = (
            [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in table.splitlines()
        )
        yield heads, rows


def examples() -> list[tuple[str, str]]:
    """Of each row about a function: an expression, and what it is."""
    pairs = [
        (row[-2].strip("`"), row[-1].strip("`"))
        for heads, rows in tables(text_of("reference/functions.md"))
        if heads[-2:] == ["example", "is"]
        for row in rows
    ]
    assert len(pairs) >= 60
    return pairs


def test_functions_give_what_is_said() -> None:
    engine = penstock.Engine()
    found = re.search(r"CREATE STREAM .*?\)", text_of("reference/functions.md"), re.S)
    assert found is not None
    engine.execute(found[0])
    queries = [engine.query(f"SELECT CAST({asked} AS VARCHAR) AS text FROM s") for asked, _ in examples()]
    engine.push("s", ROW)
    given = [query.results()["text"][0].as_py() for query in queries]
    shown = [("NULL" if text is None else text) for text in given]
    assert list(zip([asked for asked, _ in examples()], shown, strict=True)) == examples()


def code_of(page: str) -> list[str]:
    """What a page has as code within its sentences and tables."""
    return re.findall(r"`([^`]+)`", re.sub(FENCED, "", text_of(page)))


def not_said(page: str, words: Iterable[str]) -> list[str]:
    """Those of the words that a page does not have as code."""
    said = set(re.findall(r"[\w+-]+", " ".join(code_of(page))))
    return sorted(set(words) - said)


def test_all_functions_are_said() -> None:
    aggregates = {"COUNT", "SUM", "AVG", "MIN", "MAX"}
    assert (
        not_said("reference/functions.md", {*FUNCTION_NAMES, *TIME_PARTS} - aggregates - {"DAYOFWEEK"}) == []
    )
    assert not_said("reference/group-by.md", aggregates) == []


def test_all_options_are_said() -> None:
    options = penstock.Engine().options
    assert not_said("reference/options.md", options) == []
    assert not_said("reference/options.md", [value for known in KNOWN.values() for value in known]) == []


def test_all_errors_are_said() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    ours = [one for one in classes if issubclass(one, (errors.PenstockError, errors.PenstockWarning))]
    assert not_said("reference/errors.md", [one.__name__ for one in ours]) == []
    said = {
        row[0].split("`")[1]: row[-1]
        for heads, rows in tables(text_of("reference/errors.md"))
        if heads[-1] == "exit code"
        for row in rows
    }
    assert len(said) >= 16
    assert said == {name: str(getattr(errors, name).exit_code) for name in said}


@pytest.mark.parametrize("kind", [penstock.Engine, penstock.Query])
def test_all_calls_are_said(kind: type) -> None:
    names = [name for name in vars(kind) if not name.startswith("_")]
    said = " ".join(code_of("reference/calls.md"))
    assert [name for name in names if not re.search(rf"\.{name}\b", said)] == []


def test_all_commands_are_said() -> None:
    text = text_of("reference/command-line.md")
    context = click.Context(main)
    for name in main.list_commands(context):
        assert f"`penstock {name}" in text
        command = main.get_command(context, name)
        assert command is not None
        options = [max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)]
        assert [one for one in options if not re.search(rf"[`\[]({one}|{SHORT.get(one)})\b", text)] == []


def test_the_index_leads_to_every_page() -> None:
    linked = re.findall(r"\]\((reference/[\w-]+\.md)\)", text_of("LANGUAGE.md"))
    assert sorted(linked) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_what_it_is_and_an_example(page: str) -> None:
    """A sentence or two, then code: before any other heading."""
    text = (DOCS / page).read_text()
    beginning = text[: text.index("\n## ") if "\n## " in text else len(text)]
    assert re.match(r"# .+\n\n[A-Z`]", text)
    assert "\n```" in beginning
