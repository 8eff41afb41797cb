"""The parts of `penstock bench expiry`: answers, loads, pictures. Speeds are not tested."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from penstock.bench import expiry, main
from penstock.bench.bare_groups import BareGroups
from penstock.bench.expiry import Size, bench_expiry, report_auto
from penstock.bench.expiry_drawing import round_down, saturated
from penstock.bench.expiry_figures import Scale, multiplied
from penstock.bench.expiry_groups import APPROACHES, auto_ratio, bench_drift, delivered
from penstock.bench.expiry_join import changes_of, drive_time
from penstock.bench.expiry_peers import DuckDbAgain, PolarsAgain, WindowBounds, weigh, weigh_changes
from penstock.bench.expiry_trials import (
    SECOND_US,
    favourites_load,
    poisson_times,
    prices_load,
    qualifying,
    run_trial,
    side_by_multiplicity,
    side_by_selectivity,
)
from penstock.bench.outcome import Outcome
from penstock.bench.streams import Stream, poisson_stream

TINY = Size(
    rows=3_000, drift_rows=2_000, rounds=1,
    scale=Scale(
        shares=(0.3, 1.0), delay_s=1.5, multiplicities=(1, 2), messages_s=1, capacity_s=40,
        capacity_step_s=20, selectivities=(0.01,), busy_s=1, rates=(10, 20), throughput_s=3, rounds=1,
    ),
)  # fmt: skip


def tied_stream(rows: int, keys: int, seed: int) -> Stream:
    """Few different times, so that rows come, and leave, at the same instant."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, rows // 2, rows))
    return Stream(ts, rng.integers(0, keys, rows), rng.integers(0, 9, rows).astype(np.float64))


def answer_at(stream: Stream, size: int, now: int, is_sum: bool) -> Counter[tuple[float, ...]]:
    """The groups at an instant, from the rows."""
    alive = (stream.ts <= now) & (stream.ts + size > now)
    rows: Counter[tuple[float, ...]] = Counter()
    for key in np.unique(stream.key[alive]):
        values = stream.value[alive & (stream.key == key)]
        pair = (values.sum(), values.sum() / len(values)) if is_sum else (len(values), values.max())
        rows[float(key), float(pair[0]), float(pair[1])] += 1
    return rows


@pytest.mark.parametrize("is_sum", [False, True])
def test_the_bare_loop_gives_the_changes_of_the_answer_at_every_instant(is_sum: bool) -> None:
    stream, size = tied_stream(120, 4, 1), 17
    bare = BareGroups(stream, size, 16, is_sum, 1_000)
    ts, sign, *columns = bare.changes()
    there: Counter[tuple[float, ...]] = Counter()
    number = 0
    for now in range(int(stream.ts[-1]) + 1):
        before = there.copy()
        while number < len(ts) and ts[number] == now:
            row = tuple(float(column[number]) for column in columns)
            there[row] += int(sign[number])
            number += 1
        assert +there == answer_at(stream, size, now, is_sum)
        net = sum(abs(there[row] - before[row]) for row in {*there, *before})
        assert int(np.count_nonzero(ts == now)) == net, "a change that is none"
    counting = BareGroups(stream, size, 16, is_sum)
    counting.reset()
    assert counting.run() == len(ts) == number


def test_asking_again_gives_what_the_changes_add_up_to() -> None:
    stream, size, step = poisson_stream(800, 40, 5, 3), 3 * SECOND_US, SECOND_US
    instants = WindowBounds(stream, size, step).instants
    wanted = sum(
        int(weigh(key, count, most)) * copies
        for now in instants.tolist()
        for (key, count, most), copies in answer_at(stream, size, now, False).items()
    )
    for peer in (DuckDbAgain(stream, size, step), PolarsAgain(stream, size, step)):
        assert {name: form() for name, form in peer.forms().items()} == dict.fromkeys(peer.forms(), wanted)
    sql = "SELECT key, COUNT(*), MAX(value) FROM a [RANGE 3 SECONDS] GROUP BY key EMIT CHANGES"
    ts, sign, key, count, most = delivered(sql, [stream.table])
    assert weigh_changes(instants, ts, sign, weigh(key, count, most)) == wanted


def test_sums_do_not_drift() -> None:
    outcome = Outcome("x")
    bench_drift(outcome, 3_000)
    assert outcome.agrees
    (line,) = outcome.lines
    assert line.value == 0
    assert line.verdict == "pass"


# -- the paper's loads --------------------------------------------------------------------------------


def test_qualifying_rows_are_bunched_or_scattered() -> None:
    rng = np.random.default_rng(1)
    ts = poisson_times(50, 240, rng)
    assert len(ts) == pytest.approx(12_000, rel=0.05)
    assert ts[-1] < 240 * SECOND_US
    for bunched in (True, False):
        good = ts[qualifying(ts, 0.3, bunched, 30 * SECOND_US, rng)]
        assert len(good) == pytest.approx(0.3 * len(ts), rel=0.1)
        assert (np.diff(good).max() > 30 * SECOND_US) == bunched


@pytest.mark.parametrize("multiplicity", [1, 3, 5])
def test_as_many_pairs_as_rows_at_any_multiplicity(multiplicity: int) -> None:
    one, two = (side_by_multiplicity(200, 5, 40, multiplicity, 5 + i, i) for i in (0, 1))
    partners = Counter(two.store[(two.ts > 20 * SECOND_US) & (two.ts <= 25 * SECOND_US)].tolist())
    matching = [partners[store] for store in one.store[::multiplicity].tolist()]
    assert np.mean(matching) == pytest.approx(multiplicity, rel=0.15)
    assert not set(np.delete(one.store, np.s_[::multiplicity])) & set(two.store)


def test_all_approaches_agree_and_only_ita_is_late() -> None:
    load = favourites_load(0.2, True, 30, 1, 6, 0, 1)
    trials = {expiry: run_trial(load, expiry) for expiry in APPROACHES}
    assert len({trial.changes for trial in trials.values()}) == 1
    assert trials["ita"].stream_delay["max_us"] > 0.5 * SECOND_US
    assert all(trial.stream_delay["max_us"] == 0 for e, trial in trials.items() if e != "ita")
    assert all(trial.rows == load.rows < 6 * 30 for trial in trials.values())
    assert load.filling
    assert trials["nta"].entered > trials["auto"].entered
    assert trials["time-message"].messages >= trials["piggyback"].messages >= 0
    assert trials["auto"].messages == trials["ita"].messages == trials["nta"].messages == 0


def test_the_join_alone_finds_the_pairs_of_the_engine_both_ways() -> None:
    sides = multiplied(2, 8, 1)
    load = prices_load(sides, 1, 8, SECOND_US)
    trials = [run_trial(load, expiry) for expiry in APPROACHES]
    assert len({trial.changes for trial in trials}) == 1
    pairs = trials[0].entered
    for withdrawn in (False, True):
        seconds, found = drive_time(changes_of(sides, SECOND_US, 2 * SECOND_US, withdrawn))
        assert found == pairs > 0
        assert seconds > 0


def test_keys_match_as_often_as_the_selectivity_says() -> None:
    one, two = (side_by_selectivity(200, 20, 0.02, seed) for seed in (1, 2))
    partners = Counter(two.store.tolist())
    pairs = sum(partners[store] for store in one.store.tolist())
    assert pairs == pytest.approx(0.02 * len(one.ts) * len(two.ts), rel=0.1)


# -- the report ---------------------------------------------------------------------------------------


def test_auto_is_held_against_the_best_other() -> None:
    assert auto_ratio({"auto": 3.0, "ita": 2.0, "nta": 4.0}) == 0.75
    outcome = Outcome("x")
    report_auto(outcome, [("here", 1.1), ("there", 0.8)])
    (line,) = outcome.lines
    assert (line.value, line.verdict, line.note) == (0.8, "miss", "there; 2 points")


def test_output_is_offered_or_what_a_processor_can_do() -> None:
    assert saturated(100, 500, 10) == 50
    assert saturated(10, 500, 10) == 10
    assert [round_down(value) for value in (0.4, 7.9, 99, 345.6)] == [1, 7, 90, 300]


def test_expiry_bench_on_tiny_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("penstock.bench.expiry_figures.WINDOW_S", 1)
    monkeypatch.setattr("penstock.bench.race.TURN_S", 0)
    monkeypatch.setattr(
        main, "BENCHES", {"expiry": lambda quick, out, tell: bench_expiry(TINY, out, told.append)}
    )
    assert main.run(["expiry"], True, tmp_path) == 0
    kept = json.loads((tmp_path / "expiry.json").read_text())
    assert kept["answers_agree"]
    assert len(told) == 4
    assert len(list(dict.fromkeys(line["group"] for line in kept["lines"]))) == 12
    assert all(line["value"] > 0 for line in kept["lines"] if line["unit"] in ("rows/s", "x"))
    assert all(math.isfinite(line["value"]) for line in kept["lines"])
    targets = [line["target"] for line in kept["lines"] if line["target"]]
    assert targets == [">= 0.3", "<= 0", "<= 0", ">= 0.9"]
    assert set(kept["data"]["figures"]) == {"7, bunched", "7, scattered", "8a", "8b", "9", "10"}
    assert len(kept["data"]["auto_against_best"]) == 4 + 2 + 2
    assert kept["pictures"] == [f"expiry-fig{number}.png" for number in (7, 8, 9, 10)]
    for picture in kept["pictures"]:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_it_is_registered() -> None:
    assert main.BENCHES["expiry"] is main.run_expiry
    assert expiry.FULL.rows == 1_000_000
