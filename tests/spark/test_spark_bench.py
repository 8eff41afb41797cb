"""`penstock bench spark` on a few rows: everyone answers the same. Speeds are not tested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.bench.main import BENCHES
from penstock.bench.spark import Size, bench_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Size((3_000, 2), {1: (3_000, 2), 4: (1_500, 1)}, {3: (1_500, 1)}, (3_000, 1), (1,))


@pytest.mark.slow
def test_all_answers_agree(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.bench.spark_join.MOST_SEPARATE", 2)
    told: list[str] = []
    outcome = bench_spark(TINY, tmp_path, told.append)
    assert outcome.disagreements == []
    values = {(line.group, line.name): line.value for line in outcome.lines}
    assert len(values) == len(outcome.lines) == 3 + 6 + 4 + 3 * 3
    assert all(value > 0 for value in values.values())
    assert "4 queries against Spark: a streaming query each" in told
    assert "spark" in BENCHES
