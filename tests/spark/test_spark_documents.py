"""What the documents and examples say of Spark runs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run_page import run_page
from test_documents import count_shown
from test_pages import REWRITE, pages_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_readme(spark: SparkSession) -> None:
    assert count_shown(of_spark=True) >= 5


@pytest.mark.parametrize("page", pages_run(of_spark=True))
def test_page(page: str, spark: SparkSession, tmp_path: Path) -> None:
    assert run_page(f"docs/{page}", tmp_path, REWRITE).lines_shown > 5


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples import what they share, as when they are run from their folder."""
    monkeypatch.syspath_prepend(EXAMPLES)


def test_example_of_the_sink(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "spark_sink.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "first run:  120,000 rows\nsecond run: 120,000 rows\n" in printed
    assert printed.count(" results\n") == 4
    assert "|2026-01-05 08:20:00|" in printed


def test_example_of_the_source(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "spark_source.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "|2026-01-01 00:00:30|0       |" in printed
    assert "after 3 files of each stream: 100 muggy pairs" in printed
    assert "after 5 files of each stream: " in printed
    assert "fed: 180 lines of the report" in printed  # each half minute, 20 locations; the last waits


def test_example_of_scale_out(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "spark_scale_out.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "muggy, report, sweltering: split by location\n" in printed
    assert "sweltering: 0 results" not in printed
    assert "|2026-01-05 08:15:00|  100|" in printed
