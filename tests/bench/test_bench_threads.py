"""The bench of threads, on few rows: engines side by side agree, and a turn is measured against pushes."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.bench import threads


def test_all_answers_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.bench.race.TURN_S", 0)
    monkeypatch.setattr(threads, "EMPTY_CALLS", 10)
    told: list[str] = []
    outcome = threads.bench_threads(threads.Size(10, 5_000, 1), tmp_path, told.append)
    assert outcome.agrees, outcome.disagreements
    assert [line.target is not None for line in outcome.lines] == [False, True, True, False]
    assert len(told) == 2


def test_pushes_are_of_both_streams_in_turn() -> None:
    pushes = threads.small_pushes(6)
    assert [(stream, table.num_rows) for stream, table in pushes] == [("a", 100), ("b", 100)] * 3
