"""The parts of the benches: inputs, bare loops, peers, timing, reports. Speeds are not tested."""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.bench import main
from penstock.bench.bare import BareJoin
from penstock.bench.drive import Feed, push_all, start
from penstock.bench.join import EQUAL, Size, bench_join
from penstock.bench.mix import COMBINATIONS, Point, Setting, Workload, estimate, hit_rate
from penstock.bench.outcome import Line, Outcome, Target
from penstock.bench.peers import DuckDb, PolarsLoop
from penstock.bench.race import BUDGET_S, TURN_RUNS, Contestant, Timing, race
from penstock.bench.report import write_value
from penstock.bench.streams import Stream, cut_by_rows, cut_by_time, poisson_stream
from penstock.engine.rows.errors import UsageError
from penstock.optimizer.costs.weights import SHIPPED, read

TINY = Size(
    rows=12_000, heavy_rows=2_000, band_rows=2_000, scan_rows=500, rounds=1, shares=(0.0, 0.01, 0.5, 1.0),
    mix_rows=2_000, mix_rounds=1, memory_rows=100, memory_windows=25,
)  # fmt: skip


def tied_stream(rows: int, keys: int, seed: int) -> Stream:
    """Few different times, so that rows of both streams come at the same instant."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 3 * rows // 4, rows))
    return Stream(ts, rng.integers(0, keys, rows), np.zeros(rows))


def naive_pairs(a: Stream, b: Stream, size: int) -> set[tuple[int, int]]:
    return {
        (i, j)
        for i, j in itertools.product(range(len(a)), range(len(b)))
        if a.key[i] == b.key[j] and abs(int(a.ts[i]) - int(b.ts[j])) < size
    }


# -- inputs -------------------------------------------------------------------------------------------


def test_streams_are_reproducible_and_in_order() -> None:
    one, again, other = (poisson_stream(5_000, 1_000, 50, seed) for seed in (1, 1, 2))
    assert one.ts.tolist() == again.ts.tolist()
    assert one.key.tolist() != other.key.tolist()
    assert bool(np.all(np.diff(one.ts) >= 0))
    assert one.ts[-1] / 1e6 == pytest.approx(5, rel=0.1)
    assert set(one.key) == set(range(50))


def test_cuts_cover_every_row_once() -> None:
    ts = np.array([0, 5, 9, 10, 31, 39])
    # [0, 10) [10, 20) [20, 30) [30, 40)
    assert cut_by_time(ts, 10, 40) == [(0, 3), (3, 4), (4, 4), (4, 6)]
    assert cut_by_rows(7, 3) == [(0, 3), (3, 6), (6, 7)]


# -- contestants --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "size"), [(3, 40), (20, 100), (20, 1), (1, 7)])
def test_bare_loops_find_what_a_double_loop_finds(keys: int, size: int) -> None:
    a, b = tied_stream(150, keys, 1), tied_stream(130, keys, 2)
    expected = naive_pairs(a, b, size)
    bare = BareJoin(a, b, size, 64, 150 * 130)
    rows_a, rows_b = bare.pairs()
    assert len(rows_a) == len(expected)
    assert set(zip(rows_a.tolist(), rows_b.tolist(), strict=True)) == expected
    bare.reset()
    assert bare.count() == len(expected)


def test_peers_and_engine_count_what_a_double_loop_counts() -> None:
    step, size = 100, 250
    a, b = tied_stream(900, 9, 3), tied_stream(800, 9, 4)
    expected = len(naive_pairs(a, b, size))
    duckdb = DuckDb(a, b, size)
    until = int(max(a.ts[-1], b.ts[-1])) + 1
    cuts = list(zip(cut_by_time(a.ts, step, until), cut_by_time(b.ts, step, until), strict=True))
    found = {"plain": duckdb.plain()}
    found |= {name: count() for name, count in duckdb.tuned().items()}
    found |= {name: count() for name, count in PolarsLoop(a, b, cuts, step, size).forms().items()}
    sql = EQUAL.replace("RANGE 10 SECONDS", f"RANGE {size} MICROSECONDS")
    for counting in (True, False):
        engine = start(sql, counting)
        found[f"engine, counting {counting}"] = push_all(*engine, Feed.of(a.table, b.table, cuts), counting)
    assert found == dict.fromkeys(found, expected)


# -- timing and verdicts ------------------------------------------------------------------------------


def test_a_race_warms_up_and_takes_turns() -> None:
    calls: list[str] = []

    def runner(name: str) -> Contestant:
        return Contestant(name, lambda made: (calls.append(name), made)[1], lambda: 7)

    timings = race([runner("x"), runner("y")], 3)
    turn = ["x"] * TURN_RUNS + ["y"] * TURN_RUNS
    assert calls == ["x", "y", *(3 * turn)]
    assert [len(timing.cpu_s) for timing in timings.values()] == [3 * TURN_RUNS] * 2
    assert all(timing.answers == {7} for timing in timings.values())


def test_a_slow_contestant_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.count(step=BUDGET_S)
    monkeypatch.setattr("penstock.bench.race.time.perf_counter", lambda: float(next(times)))
    timings = race([Contestant("slow", lambda _: 1)], 9)
    assert len(timings["slow"].elapsed_s) == 2


def test_targets() -> None:
    line = Line("g", "n", 4.9, "x", Target(">=", 5))
    assert line.verdict == "miss"
    assert str(line.target) == ">= 5"
    assert Line("g", "n", 4.9, "MB", Target("<=", 5)).verdict == "pass"
    assert Line("g", "n", 4.9, "x").verdict == ""


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(12_345_678.0, "rows/s", "12,345,678 rows/s"), (0.4567, "x", "0.46x"), (0.0195, "MB", "0.0195 MB")],
)
def test_values_are_readable(value: float, unit: str, text: str) -> None:
    assert write_value(Line("g", "n", value, unit)) == text


def test_different_answers_are_noticed() -> None:
    outcome = Outcome("x")
    outcome.compare("same", {"one": {5}, "two": {5}})
    assert outcome.agrees
    outcome.compare("counts", {"one": {5}, "two": {5, 6}})
    assert outcome.disagreements == ["counts: one 5, two 5/6"]
    assert not outcome.agrees


# -- the cost model's figures -------------------------------------------------------------------------


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_estimates_mirror(combination: str) -> None:
    weights = read(SHIPPED)
    one = estimate(Setting(7_000, 3_000, 0.2), combination, weights)
    assert one == pytest.approx(estimate(Setting(3_000, 7_000, 0.8), combination[::-1], weights))
    assert one > weights.row


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_workload_keeps_windows_full_and_combinations_agree(share: float) -> None:
    """ROWS windows filled before the clock starts; with one key per row, one match per probe on average."""
    workload = Workload(Setting(200, 200, share), 1_000)
    pairs = {workload.run(combination)[1] for combination in ("HH", "TN", "NT")}
    assert len(pairs) == 1
    assert 800 < pairs.pop() < 1_200
    rows_a = sum(a.num_rows for a, _, _ in workload.slices)
    assert rows_a == pytest.approx(1_000 * share, abs=60)


def point(estimated: dict[str, float], measured: dict[str, float]) -> Point:
    return Point(Setting(1, 1, 0.5), estimated, measured)


def test_hit_rate_leaves_out_ties() -> None:
    hit = point({"HH": 1, "TT": 2}, {"HH": 1, "TT": 3})
    miss = point({"HH": 1, "TT": 2}, {"HH": 3, "TT": 1.5})
    tie = point({"HH": 1, "TT": 2}, {"HH": 1.05, "TT": 1})
    assert [one.is_tie for one in (hit, miss, tie)] == [False, False, True]
    assert hit_rate([hit, miss, tie, hit, hit]) == (0.75, 4)
    assert miss.regret == pytest.approx(1.0)
    assert hit_rate([tie]) == (1.0, 0)


# -- the command --------------------------------------------------------------------------------------


def test_unknown_bench(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found `jion`\. Did you mean `join`\?"):
        main.run(["jion"], True, tmp_path)


def test_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "polars" else there(name))
    with pytest.raises(UsageError, match=r"found no `polars`: pip install 'penstock\[bench\]'"):
        main.run([], True, tmp_path)


def test_out_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_text("")
    with pytest.raises(UsageError, match="Expected a folder"):
        main.run([], True, path)


def test_exit_code_is_about_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome("fake", lines=[Line("group", "speed", 0.1, "x", Target(">=", 1))])
    benches: dict[str, Any] = {"fake": lambda quick, out, tell: outcome}
    monkeypatch.setattr(main, "BENCHES", benches)
    assert main.run([], True, tmp_path / "new") == 0
    assert "missed  group: speed 0.10x, target >= 1" in capsys.readouterr().out
    outcome.compare("counts", {"one": {1}, "two": {2}})
    assert main.run(["fake"], True, tmp_path / "new") == 1
    assert "answers differ" in capsys.readouterr().out
    assert json.loads((tmp_path / "new" / "fake.json").read_text())["answers_agree"] is False


def test_join_bench_on_tiny_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    weights = read(SHIPPED)
    monkeypatch.setattr("penstock.bench.race.TURN_S", 0)
    monkeypatch.setattr(
        main, "BENCHES", {"join": lambda quick, out, tell: bench_join(TINY, out, told.append, weights)}
    )
    assert main.run(["join"], True, tmp_path) == 0
    kept = json.loads((tmp_path / "join.json").read_text())
    assert kept["answers_agree"]
    assert len(told) == 6
    groups = list(dict.fromkeys(line["group"] for line in kept["lines"]))
    assert groups == [
        "W1, rows delivered", "W1, counted", "output-heavy, counted", "band join, counted",
        "cost model", "memory",
    ]  # fmt: skip
    assert all(line["value"] > 0 for line in kept["lines"] if line["unit"] in ("rows/s", "x", "bytes/row"))
    targets = [line["target"] for line in kept["lines"] if line["target"]]
    assert targets == [">= 0.5", ">= 0.5", ">= 5", ">= 1", ">= 4", ">= 0.6", ">= 20", ">= 80", "<= 4"]
    assert len(kept["data"]["mix"]) == len(TINY.shares) + 3
    assert set(kept["data"]["mix"][0]["measured"]) == set(COMBINATIONS)
    assert kept["versions"]["duckdb"]
    for picture in kept["pictures"]:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_timing_takes_the_best() -> None:
    timing = Timing([3.0, 1.0], [2.0, 0.5], {1})
    assert (timing.best_elapsed_s, timing.best_cpu_s) == (1.0, 0.5)
