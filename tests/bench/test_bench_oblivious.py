"""The bench of joins without windows, on few rows: answers agree, and with declared factors all is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.bench import oblivious
from penstock.bench.oblivious_streams import draw_streams, factor_of


def test_all_answers_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.bench.race.TURN_S", 0)
    told: list[str] = []
    outcome = oblivious.bench_oblivious(oblivious.Size(24, 2, 20, 1, 6, 1), tmp_path, told.append)
    assert outcome.agrees, outcome.disagreements
    values = {line.name: line.value for line in outcome.lines}
    assert values["found with declared factors"] == 100
    assert 0 < values["found by windows of as many rows"] < 100
    assert 80 < values["found with measured ones"] <= 100
    assert len(told) == 3
    assert [path.name for path in sorted(tmp_path.glob("*.png"))] == sorted(outcome.pictures)
    held = {line.name: line.value for line in outcome.lines if line.group.startswith("Figure 10")}
    assert held["hybrid"] == min(held[name] for name in ("none", "msf", "dbf", "hybrid"))


def test_streams_fall_behind_and_burst() -> None:
    streams = draw_streams(24, 1, True)
    rates = {}
    for name, one in streams.items():
        edges = [one.ts.searchsorted([at * 1e6, (at + 2) * 1e6]) for at in (0, 4, 16)]
        rates[name] = [int(end - start) for start, end in edges]
    assert rates["b"][1] < rates["b"][0] / 4
    assert rates["c"][2] > 4 * rates["c"][0]
    for one in streams.values():
        keys = one.keys.tolist()[:400]
        worst = max(j - i for j in range(len(keys)) for i in range(j) if keys[j] <= keys[i])
        assert factor_of(one.keys[:400]) == worst
