"""`penstock run` with tables beside streams, changes and hops, and every approach to expiry."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_help import invoke
from click.testing import CliRunner

from penstock.cli.main import main

QUERIES = """
CREATE STREAM sales (ts TIMESTAMP, item BIGINT, price DOUBLE);
CREATE TABLE favourite (item BIGINT, label VARCHAR);
CREATE QUERY top AS
  SELECT label, COUNT(*) AS n, MAX(price) AS dearest
  FROM sales [RANGE 5 SECONDS] AS s JOIN favourite AS f ON s.item = f.item GROUP BY label;
CREATE QUERY report AS
  SELECT item, COUNT(*) AS n FROM sales [RANGE 10 SECONDS] GROUP BY item HOP BY 4 SECONDS;
"""
SALES = """ts,item,price
1970-01-01T00:00:01,1,2.5
1970-01-01T00:00:03,1,4.0
1970-01-01T00:00:09,3,9.0
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.sql").write_text(QUERIES)
    Path("sales.csv").write_text(SALES)
    Path("favourite.csv").write_text("item,label\n1,apple\n2,pear\n")


def rows(text: str, query: str) -> list[tuple[object, ...]]:
    """Results of one query: the second, then what was selected."""
    found = [json.loads(line) for line in text.splitlines()]
    mine = [[value for key, value in row.items() if key != "query"] for row in found if row["query"] == query]
    return [(int(str(ts)[17:19]), *rest) for ts, *rest in mine]


@pytest.mark.parametrize("expiry", ["auto", "ita", "nta", "time-message", "piggyback"])
def test_a_table_is_loaded_before_the_streams(expiry: str) -> None:
    out = invoke(
        "run", "q.sql", "-q", "-i", "sales=sales.csv", "-i", "Favourite=favourite.csv", "--expiry", expiry
    ).stdout
    assert rows(out, "top") == [
        (1, 1, "apple", 1, 2.5),
        (3, -1, "apple", 1, 2.5),
        (3, 1, "apple", 2, 4.0),
        (6, -1, "apple", 2, 4.0),
        (6, 1, "apple", 1, 4.0),
        (8, -1, "apple", 1, 4.0),
    ]
    assert rows(out, "report") == [(4, 1, 2), (8, 1, 2), (12, 1, 1), (12, 3, 1)]


def test_a_table_without_input_is_empty_and_said() -> None:
    result = invoke("run", "q.sql", "-i", "sales=sales.csv")
    assert "Note: no -i for the table `favourite`: it is empty" in result.stderr
    assert rows(result.stdout, "top") == []


def test_a_bad_row_of_a_table_is_named() -> None:
    Path("favourite.csv").write_text("item,label\n1,apple\nx,pear\n")
    words = ["run", "q.sql", "-q", "-i", "sales=sales.csv", "-i", "favourite=favourite.csv"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 4
    assert "favourite.csv" in result.stderr and "row 2" in result.stderr


def test_explain_shows_tables_and_takes_their_files() -> None:
    words = ["explain", "q.sql", "-i", "sales=sales.csv", "-i", "favourite=favourite.csv", "--expiry", "nta"]
    shown = invoke(*words).stdout
    assert "Table favourite" in shown and "expiry nta" in shown and "HOP BY 4 SECONDS  EMIT COMPLETE" in shown


@pytest.mark.parametrize("modes", ["DIDO", "CICO"])
def test_modes_of_hopping_queries_can_be_forced(modes: str) -> None:
    files = ["-i", "sales=sales.csv", "-i", "favourite=favourite.csv"]
    result = invoke("run", "q.sql", "-q", *files, "--modes", modes)
    assert rows(result.stdout, "report") == rows(invoke("run", "q.sql", "-q", *files).stdout, "report")
    shown = {"DIDO": "aggregate 1 DICO: changes in", "CICO": "aggregate 1 CICO: whole answers in and out"}
    assert shown[modes] in invoke("explain", "q.sql", "--modes", modes).stdout


def test_an_unknown_mode_is_refused() -> None:
    result = CliRunner().invoke(main, ["run", "q.sql", "-i", "sales=sales.csv", "--modes", "CACO"])
    assert result.exit_code == 2 and "CACO" in result.stderr


ONLY = "CREATE STREAM sales (ts TIMESTAMP, item BIGINT, price DOUBLE);" + (
    "CREATE QUERY both AS SELECT x.item FROM sales [RANGE 4 SECONDS] AS x "
    "JOIN sales [RANGE 8 SECONDS] AS y ON x.item = y.item EXCEPT SELECT item FROM sales [RANGE 1 SECOND] "
    "HOP BY 4 SECONDS"
)


def test_modes_of_some_operators_can_be_forced() -> None:
    Path("one.sql").write_text(ONLY)
    for modes in ("join 1=CICO,except 1=CICO", "join 1=dido, except 1=DICO"):
        words = ["run", "one.sql", "-q", "-i", "sales=sales.csv", "--modes", modes]
        assert rows(invoke(*words).stdout, "both") == rows(invoke(*words[:-2]).stdout, "both") != []
        shown = invoke("explain", "one.sql", "--modes", modes).stdout
        assert all(f"{one.strip().upper().replace('=', ' ')}:" in shown.upper() for one in modes.split(","))


@pytest.mark.parametrize(("modes", "message"), [
    ("join 7=CICO", "Expected modes of `except 1`, `join 1`, `scan 1`, .* found one of `join 7`"),
    ("join 1=CACO", "Expected a mode to be one of DIDO, DICO, CICO, CIDO, found `CACO`"),
    ("join 1=CICO,=DIDO", "Expected modes such as `join 1=CICO,scan 2=DICO`, found `=DIDO`"),
    ("join 1=CICO,join 1=DIDO", "Expected one mode of `join 1`, found `CICO` and `DIDO`"),
    ("join 1=DIDO,except 1=CICO", "Expected `join 1` to write what `except 1` reads"),
])  # fmt: skip
def test_modes_of_operators_that_do_not_fit_are_refused(modes: str, message: str) -> None:
    Path("one.sql").write_text(ONLY)
    result = CliRunner().invoke(main, ["explain", "one.sql", "--modes", modes])
    assert result.exit_code == 2
    assert re.search(message, " ".join(result.stderr.split())), result.stderr


def test_the_search_for_a_plan_can_be_chosen() -> None:
    Path("one.sql").write_text(ONLY)
    for strategy in ("exhaustive", "heuristic", "none"):
        assert f"plan {strategy}: " in invoke("explain", "one.sql", "--optimize", strategy).stdout
    result = CliRunner().invoke(main, ["explain", "one.sql", "--optimize", "all"])
    assert result.exit_code == 2 and "'all'" in result.stderr
