"""Words, options and queries the command refuses, with their exact line and exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_help import (
    INPUTS,
    expected_rows,
    folder_with_inputs,  # noqa: F401
    invoke,
    refusal,
    rows_of,
)

from penstock.options import KNOWN


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["run", "q.sql", "-i", "t.parquet"],
            "Expected `-i stream=file`, found `-i t.parquet`; declared: `temperature`, `humidity`",
        ),
        (["run", "q.sql"], "Expected an input, found none; write -i temperature=FILE"),
        (
            ["run", "SELECT * FROM temperature"],
            "Expected a file of statements, found the text `SELECT * FROM temperature`;"
            " put the statements into a file",
        ),
        (
            ["run", "q.sql", *INPUTS, "-o", "out.csv"],
            "Expected a folder after -o, found `out.csv`; write `-o out --format csv`",
        ),
        (
            ["run", "q.sql", *INPUTS, "-o", "my out.json"],
            "Expected a folder after -o, found `my out.json`; write `-o 'my out' --format jsonl`",
        ),
        (["run", "q.sql", *INPUTS, "-o", "q.sql"], "Expected a folder after -o, found the file `q.sql`"),
        (
            ["run", "q.sql", "-i", "humdity=h.parquet"],
            "Expected a declared stream in `-i humdity=h.parquet`, found `humdity`. Did you mean `humidity`?",
        ),
        (
            ["run", "q.sql", "-i", "temperature=-", "-i", "humidity=-"],
            "Expected `-` (standard input) for one input, found it for several",
        ),
        (
            ["run", "-", "-i", "temperature=-"],
            "Expected `-` (standard input) for the queries or an input, found it for both",
        ),
        (["run", "no.sql"], "Expected a file of statements at `no.sql`, found: No such file or directory"),
        (["run", "t.parquet"], "Expected a file of statements at `t.parquet`, found bytes that are not text"),
        (
            ["run", "q.sql", "--format", "csv"],
            "Expected -o DIR with --format, found none; standard output is always JSON lines",
        ),
        (
            ["explain", "q.sql", "-i", "x=h.parquet"],
            "Expected a declared stream in `-i x=h.parquet`, found `x`. Known: `humidity`, `temperature`",
        ),
    ],
)
def test_wrong_usage(words: list[str], line: str, here: Path) -> None:
    assert refusal(*words, code=2) == f"Error: {line}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rn"], "Error: Expected a command, found `rn`. Did you mean `run`?"),
        (["explian", "q.sql"], "Error: Expected a command, found `explian`. Did you mean `explain`?"),
        (["run", "q.sql", "--speed", "fast"], "Expected a speed above 0 such as `10x`, found `fast`"),
        (["run", "q.sql", "--speed", "0x"], "Expected a speed above 0 such as `10x`, found `0x`"),
        (["run", "q.sql", "--sharing", "some"], "'some' is not one of"),
        (["run", "q.sql", "--nonsense"], "No such option"),
        (["run"], "Missing argument 'QUERIES.sql'"),
        (
            ["run", "q.sql", "-i", "temperature", "t.parquet"],
            "Got unexpected extra argument (t.parquet). Write -i temperature=t.parquet",
        ),
    ],
)
def test_words_that_the_command_does_not_know(words: list[str], line: str, here: Path) -> None:
    result = invoke(*words, code=2)
    assert result.stdout == ""
    assert line in result.stderr


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("CREATE STREAM s (ts TIMESTAMP);\nCREATE QUERY q AS\n  SELECT nothing FROM s;", "line 3, column 10"),
        ("CREATE STREAM s (ts TIMESTAMP);\nCREATE QUERY q AS SELECT * FRM s;", "line 2, column"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(sql: str, place: str, here: Path) -> None:
    (here / "bad.sql").write_text(sql)
    line = refusal("run", "bad.sql", code=3)
    assert line.startswith("Error: ")
    assert place in line
    assert " of `bad.sql`" in line


def test_a_file_without_queries(here: Path) -> None:
    (here / "none.sql").write_text("CREATE STREAM s (ts TIMESTAMP);")
    assert (
        refusal("run", "none.sql", code=3)
        == "Error: Expected at least one CREATE QUERY in `none.sql`, found none"
    )


@pytest.mark.parametrize("name", ["auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain"])
def test_every_strategy_gives_the_same_results(name: str, here: Path) -> None:
    assert rows_of(invoke("run", "q.sql", "-q", *INPUTS, "--sharing", name).stdout) == expected_rows()


def test_a_folder_for_results_that_cannot_be_made(here: Path) -> None:
    line = refusal("run", "q.sql", "-q", *INPUTS, "-o", "q.sql/deeper", code=4)
    assert line == "Error: Expected to write `q.sql/deeper`, found: Not a directory"


def test_a_folder_may_have_a_name_like_a_file(here: Path) -> None:
    (here / "out.csv").mkdir()
    invoke("run", "q.sql", "-q", *INPUTS, "-o", "out.csv")
    assert (here / "out.csv" / "hot.parquet").exists()


def test_help_lists_the_sharing_modes() -> None:
    for command in ("run", "explain"):
        words = invoke(command, "--help").stdout.split()
        assert words[words.index("--sharing") + 1] == f"[{'|'.join(KNOWN['sharing'])}]"
