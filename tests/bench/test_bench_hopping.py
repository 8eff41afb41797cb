"""The bench of hopping queries, on few rows: everyone agrees, and a wrong answer is noticed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from penstock.bench import hopping, hopping_aggregates, hopping_modes, hopping_trials
from penstock.bench.outcome import Outcome

pytest.importorskip("duckdb")
pytest.importorskip("polars")


def test_all_answers_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.bench.race.TURN_S", 0)
    monkeypatch.setattr(hopping_trials, "FEWEST_HOPS", 2)
    monkeypatch.setattr(hopping_trials, "MOST_HOPS", 2)
    monkeypatch.setattr(hopping_modes, "DIFFERENCE_WINDOW_S", 2)
    monkeypatch.setattr(hopping_modes, "JOIN_WINDOW_S", 2)
    pairs = hopping_aggregates.many_pairs(12)
    monkeypatch.setattr(hopping_aggregates, "many_pairs", lambda: pairs)
    told: list[str] = []
    size = hopping.Size(rows=65_000, rounds=1, ratios=(0.5,), windows_s=(5,), figure_rounds=1, plans=2)
    outcome = hopping.bench_hopping(size, tmp_path, told.append)
    assert outcome.agrees, outcome.disagreements
    ratios = {(line.group, line.name): line for line in outcome.lines if line.target is not None}
    assert len(ratios) == 11
    assert len(told) == 5
    assert len(outcome.pictures) == 5
    assert all((tmp_path / name).stat().st_size > 10_000 for name in outcome.pictures)


@pytest.mark.parametrize(
    ("cheaper", "at"), [([], 0), ([True, True], 0), ([False, True, False, True, True], 3), ([True, False], 2)]
)
def test_a_crossing_is_where_it_stays_crossed(cheaper: list[bool], at: int) -> None:
    assert hopping_modes.crossing(cheaper) == at


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


def test_a_mode_that_answers_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = hopping_trials.weigh, itertools.count()
    monkeypatch.setattr(hopping_trials, "weigh", lambda *given: real(*given) + (next(asked) == 1))
    outcome = Outcome("hopping")
    sql = hopping_modes.text(hopping_modes.DIFFERENCE, 1)
    ways = {mode: hopping_trials.Way(sql, "DELTA", mode) for mode in ("DIDO", "CIDO")}
    load = hopping_modes.load_of("ab", 1, 500_000, hopping_modes.DIFFERENCE)
    hopping_trials.run_ways(outcome, "a difference", ways, load, 1)
    assert not outcome.agrees
