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
from penstock.optimizer.bind.column_types import TYPE_NAMES
from penstock.optimizer.names.function_names import FUNCTION_NAMES, TIME_PARTS
from penstock.optimizer.read.durations import UNITS_US
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


def table_of(page: str, *heads: str) -> list[list[str]]:
    """The rows of the table that has these heads."""
    return next(rows for found, rows in tables(text_of(page)) if tuple(found) == heads)


def words_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_all_names_of_types_are_said() -> None:
    rows = table_of("reference/values.md", "type", "also written", "holds", "is read from")
    said = {name: words_in(first)[0] for first, others, *_ in rows for name in words_in(first + others)}
    assert {name.split("(")[0] for name in said} == set(TYPE_NAMES)
    engine = penstock.Engine()
    for number, (name, means) in enumerate(said.items()):
        engine.execute(f"CREATE TABLE one{number} (x {name}); CREATE TABLE other{number} (x {means})")
        assert engine.tables[f"one{number}"] == engine.tables[f"other{number}"]


def test_units_of_durations_are_said() -> None:
    rows = table_of("reference/windows.md", "unit", "also")
    for unit, others in rows:
        same = {UNITS_US[name] for name in words_in(unit + others)}
        assert len(same) == 1
    assert {UNITS_US[words_in(unit)[0]] for unit, _ in rows} == set(UNITS_US.values())


def test_what_only_looks_like_an_equality_is_not_shared_with_one() -> None:
    """Conditions with parts that stand for any others are left out."""
    page = text_of("reference/conditions.md").split("## What only looks the same")[1]
    rows = next(tables(page))[1]
    asked = [one for row in rows for one in words_in(row[0]) if not one.startswith("(c ")]
    assert len(asked) >= 7
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    for condition in ("a.k = b.k", *asked):
        engine.query(f"SELECT a.k FROM a JOIN b ON {condition} WINDOW 1 MINUTE")
    first = next(iter(engine.queries))
    assert [group for group in engine.stats()["groups"] if first in group["queries"]] == []
