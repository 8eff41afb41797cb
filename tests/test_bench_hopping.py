"""The bench of hopping aggregates, on few rows: everyone agrees, and a wrong answer is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.bench import hopping, hopping_aggregates
from penstock.bench.outcome import Outcome

pytest.importorskip("duckdb")
pytest.importorskip("polars")


def test_all_answers_agree(tmp_path: Path) -> None:
    told: list[str] = []
    outcome = hopping.bench_hopping(hopping.Size(rows=75_000, rounds=1), tmp_path, told.append)
    assert outcome.agrees, outcome.disagreements
    ratios = {(line.group, line.name): line for line in outcome.lines if line.target is not None}
    assert len(ratios) == 3 and all(line.unit == "x" for line in ratios.values())
    assert len(told) == 2


def test_pairs_are_all_different() -> None:
    pairs = hopping_aggregates.many_pairs()
    assert len(set(pairs)) == 100
    assert {min(one) >= 5 and one[0] <= 110 and one[1] <= 60 for one in pairs} == {True}


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = hopping_aggregates.weights
    monkeypatch.setattr(hopping_aggregates, "weights", lambda *given: [one + 1 for one in real(*given)])
    outcome = Outcome("hopping")
    hopping_aggregates.bench_one(outcome, 70_000, 1)
    assert not outcome.agrees
