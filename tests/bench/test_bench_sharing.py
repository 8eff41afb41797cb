"""The parts of `penstock bench sharing`: answers, laps, trials, pictures. Speeds are not tested."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.bench import main, sharing, sharing_figures, sharing_windows
from penstock.bench.drive import Feed
from penstock.bench.outcome import Outcome
from penstock.bench.sharing import Size, bench_sharing
from penstock.bench.sharing_figures import (
    MEMORY,
    SERVICE,
    Form,
    Scale,
    draw,
    expected_state,
    many_panels,
    many_windows,
    merged_windows,
    trio_panels,
)
from penstock.bench.sharing_pauses import (
    BOTH,
    PauseTrial,
    Run,
    half_by_rows,
    measure_pauses,
    pushes_of,
    texts,
    trials,
)
from penstock.bench.sharing_peers import Ask, DuckDbShared, PolarsShared, Tally, even_windows, expected_counts
from penstock.bench.sharing_strategies import Lap, Runner, contestant, newcomers, selection_sets, state_rows
from penstock.bench.sharing_trials import AS_MERGED, Setting, Trial, key_shares, run_trials
from penstock.bench.streams import Stream, cut_by_rows, cut_by_time

ALONE = Form("separate", "scan", ("unshared", "auto"), ("unshared", "auto"), "nested loops")
TINY = Size(
    rows=10_500, numbers=(1, 5), few=4, separate_rows=10_500, polars_rows=2_000, w4_rows=2_000, selections=6,
    delivered_rows=10_500, many_rows=2_000, many_queries=(5,), window_rows=3_000,
    changes=2, rounds=1,
    scale=Scale((5,), 1, 45, 15, 1, (12,)),
)  # fmt: skip
STRATEGIES = ("auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu")


def tied_stream(rows: int, keys: int, seed: int) -> Stream:
    """Few different times and values, so that rows come at the same instant and values meet the bounds."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 3 * rows // 4, rows))
    return Stream(ts, rng.integers(0, keys, rows), rng.integers(0, 11, rows) / 10)


def naive_counts(asks: list[Ask], a: Stream, b: Stream, since: int = 0) -> list[int]:
    """By a double loop."""
    counts = [0] * len(asks)
    for i, j in itertools.product(range(len(a)), range(len(b))):
        if a.key[i] != b.key[j] or max(a.ts[i], b.ts[j]) < since:
            continue
        for place, ask in enumerate(asks):
            if ask.upto is not None:
                qualifies = ask.above is not None and ask.above <= a.value[i] <= ask.upto
            else:
                qualifies = ask.above is None or a.value[i] > ask.above
            if ask.by_rows:
                later = max(a.ts[i], b.ts[j])
                after = [int((s.ts[n + 1 :] <= later).sum()) for s, n in ((a, i), (b, j))]
                is_within = max(after) < ask.window_rows
            else:
                is_within = abs(int(a.ts[i]) - int(b.ts[j])) < ask.window_us
            counts[place] += is_within and bool(qualifies)
    return counts


# -- answers ------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), keys=st.integers(1, 4), since=st.integers(0, 40), drawn=st.data())
def test_expected_counts_are_those_of_a_double_loop(
    seed: int, keys: int, since: int, drawn: st.DataObject
) -> None:
    a, b = tied_stream(30, keys, seed), tied_stream(25, keys, seed + 1)
    bound = st.none() | st.integers(-1, 11).map(lambda tenth: tenth / 10)
    asks = drawn.draw(st.lists(st.builds(Ask, st.integers(1, 40), bound), min_size=1, max_size=6))
    asks += [Ask(7, 0.2, 0.4), Ask(20, 0.5, 0.5), Ask(20, 0.4, 0.3)]
    rows = st.integers(1, 40).map(lambda rows: 1_000 * rows)
    asks += drawn.draw(st.lists(st.builds(Ask, rows, bound, st.none(), st.just(True)), max_size=4))
    assert expected_counts(asks, a, b, since).tolist() == naive_counts(asks, a, b, since)


def test_expected_counts_of_nothing() -> None:
    a, b = tied_stream(10, 1, 1), tied_stream(10, 1, 2)
    empty = a.head(0)
    asks = [Ask(5), Ask(5, 0.5)]
    assert expected_counts(asks, a, empty).tolist() == [0, 0]
    assert expected_counts(asks, empty, empty).tolist() == [0, 0]
    assert expected_counts(asks, a, b, 1_000).tolist() == [0, 0]


def test_a_disagreement_names_the_first_query_that_differs() -> None:
    outcome, tally = Outcome("x"), Tally()
    one, two, three = (tally.note(counts) for counts in ([5, 6, 7], [5, 6, 7], [5, 8, 9]))
    assert one == two != three
    tally.compare(outcome, "counts", {"one": {one}, "two": {two}})
    assert outcome.agrees
    tally.compare(outcome, "counts", {"one": {one}, "two": {two, three}})
    assert outcome.disagreements == ["counts, query 2 of 3: one 6, two 6/8"]


def test_duckdb_forms_and_engine_count_what_a_double_loop_counts() -> None:
    a, b = tied_stream(200, 4, 3), tied_stream(180, 4, 4)
    asks = [Ask(20), Ask(40, 0.8), Ask(61, 0.8), Ask(30)]
    tally = Tally()
    expected = tally.note(naive_counts(asks, a, b))
    duckdb = DuckDbShared(a, b, asks, tally)
    found = {name: form() for name, form in duckdb.forms().items()} | {"by rank": duckdb.by_rank()}
    cuts = list(zip(cut_by_time(a.ts, 50, 150), cut_by_time(b.ts, 50, 150), strict=True))
    for sharing_name in STRATEGIES:
        runner = contestant("engine", asks, Feed.of(a.table, b.table, cuts), tally, sharing_name)
        found[sharing_name] = runner.run(runner.prepare())
    assert len(found) >= 11
    assert found == dict.fromkeys(found, expected)


def test_polars_forms_and_engine_count_what_a_double_loop_counts() -> None:
    """In steps of 25, most of which have no pair at all for some of the windows."""
    a, b = tied_stream(150, 5, 5), tied_stream(160, 5, 6)
    asks, tally = even_windows(7, 60), Tally()
    expected = tally.note(naive_counts(asks, a, b))
    cuts = list(zip(cut_by_time(a.ts, 25, 125), cut_by_time(b.ts, 25, 125), strict=True))
    polars = PolarsShared(a, b, cuts, 25, asks, tally)
    forms = polars.filter_forms() | polars.sum_forms() | polars.order_forms()
    found = {name: form() for name, form in forms.items()}
    assert len(found) == 5
    assert found == dict.fromkeys(found, expected)


# -- laps ---------------------------------------------------------------------------------------------


def lap_of(rows: int, window_us: int) -> Lap:
    a, b = tied_stream(rows, 3, 7), tied_stream(rows, 3, 8)
    cuts = cut_by_rows(rows, rows // 3)
    return Lap(a, b, list(zip(cuts, cuts, strict=True)), window_us)


def test_a_lap_counts_what_follows_on_the_end_of_the_lap_before() -> None:
    #   length 45 us
    #   ........|--- filling ---||------- lap 0 -------||------- lap 1 -------|
    #   0      45 - 20         45                      90
    lap = lap_of(60, 20)
    asks = [Ask(20), Ask(7, 0.5)]
    length = lap.length_us
    twice = [np.concatenate([one.ts, one.ts + length]) for one in (lap.a, lap.b)]
    a, b = (
        Stream(ts, np.tile(one.key, 2), np.tile(one.value, 2))
        for ts, one in zip(twice, (lap.a, lap.b), strict=True)
    )
    assert lap.expected(asks).tolist() == naive_counts(asks, a, b, length)
    assert [len(stream) > 0 and int(stream.ts[0]) >= length - 20 for stream in lap.filling()] == [True, True]
    first = lap.feed(0).slices[0][0]["ts"].cast("int64").to_pylist()
    assert first == (lap.a.ts[:20] + length).tolist()


@pytest.mark.parametrize("sharing_name", STRATEGIES)
def test_all_laps_agree(sharing_name: str) -> None:
    outcome = Outcome("x")
    runner = Runner(lap_of(60, 20), [Ask(20), Ask(7, 0.5), Ask(13)], sharing_name)
    lapping = runner.contestant("engine")
    for _ in range(3):
        assert lapping.run(lapping.prepare()) == 0
    runner.compare(outcome, "laps")
    assert runner.laps == 3
    assert outcome.agrees
    runner.laps = 2
    runner.compare(outcome, "laps")
    assert not outcome.agrees


def test_a_lap_is_as_long_as_the_window() -> None:
    with pytest.raises(AssertionError, match="at least as long"):
        lap_of(60, 46).filling()


# -- queries ------------------------------------------------------------------------------------------


def test_query_sets() -> None:
    assert [ask.window_us for ask in even_windows(4, 1_000)] == [250, 500, 750, 1_000]
    values = np.random.default_rng(1).random(200_000)
    for asks in selection_sets(1_000, 10_000_000).values():
        assert len({ask.window_us for ask in asks}) == len({ask.above for ask in asks}) == 1_000
        bounds = [ask.bounds for ask in asks]
        shares = [np.mean((values >= low) & (values <= high)) for low, high in bounds[::20]]
        assert np.mean(shares) == pytest.approx(0.01, rel=0.1)
        new = newcomers(asks, 20)
        assert not {ask.window_us for ask in new} & {ask.window_us for ask in asks}


def test_sql_of_a_query() -> None:
    window = "[RANGE 5 MICROSECONDS]"
    join = f"SELECT a.key, b.value FROM a {window} JOIN b {window} ON a.key = b.key"
    assert Ask(5).sql == join
    assert Ask(5, 0.25).sql == f"{join} WHERE a.value > 0.25"
    assert Ask(5, 0.25, 0.5).sql == f"{join} WHERE a.value BETWEEN 0.25 AND 0.5"
    assert Ask(5_000, by_rows=True).sql == join.replace(window, "[ROWS 5]")


def test_shared_state_is_counted_once() -> None:
    operators = [{"state_rows": 3}, {"state_rows": 4}]
    alone = {"queries": {"q": {"operators": operators}, "r": {"operators": []}}}
    assert state_rows(alone) == 7
    group = {"name": "g", "strategy": "mem-opt", "queries": ["q", "r"], "operators": operators}
    assert state_rows({"queries": {"q": {"operators": [{"state_rows": 1}]}}, "groups": [group]}) == 8


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("counting", [False, True])
def test_pauses_leave_the_other_queries_alone(counting: bool, by_rows: bool) -> None:
    a, b = tied_stream(400, 3, 9), tied_stream(400, 3, 10)
    cuts = list(zip(cut_by_time(a.ts, 20, 400), cut_by_time(b.ts, 20, 400), strict=True))
    feed = Feed(Feed.of(a.table, b.table, cuts).slices[:20])
    asks = even_windows(5, 50_000) if by_rows else even_windows(5, 50)
    asks = half_by_rows(asks) if by_rows else asks
    trial = PauseTrial(asks, texts(newcomers(asks, 3)), counting, rest=2)
    assert pushes_of(trial) == 18
    pauses = measure_pauses(trial, feed, 2, rounds=2)
    assert [len(pauses.added), len(pauses.dropped), len(pauses.survivors)] == [3, 3, 2]
    pushed = [stream.head(int(np.searchsorted(stream.ts, 20 * 20))) for stream in (a, b)]
    expected = naive_counts(asks, *pushed)
    assert pauses.survivors == {place: expected[place] for place in pauses.survivors}


def test_pauses_are_tried_for_all_kinds_of_newcomers() -> None:
    found = trials(10, 6)
    assert len(found) == 13 and all(len(trial.asks) == 10 for trial in found.values())
    for name, trial in found.items():
        assert len(trial.new) == 6
        assert pushes_of(trial) <= 24
        assert any(ask.by_rows for ask in trial.asks) == (BOTH in name)
        assert trial.counting == ("given" not in name)


def test_a_pause_is_the_longest_that_a_change_makes_a_push_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest of several runs counts."""
    took = {
        True: [[3, 3, 2, 2, 5, 2, 3, 7], [9, 9, 9, 9, 4, 4, 9, 9]],
        False: [[1, 1, 1, 1, 1, 1, 1, 2], [1, 1, 1, 1, 2, 1, 9, 1]],
    }

    def all_pushes(self: Run, leaving: list[int] | None) -> list[float]:
        return [ms / 1e3 for ms in took[leaving is not None].pop(0)]

    monkeypatch.setattr(Run, "all_pushes", all_pushes)
    asks = even_windows(2, 50)
    pauses = measure_pauses(PauseTrial(asks, texts(asks)), Feed([]), 0, rounds=2)
    assert pauses.added == pytest.approx([2, 3])
    assert pauses.dropped == pytest.approx([1, 6])
    assert pauses.ordinary == pytest.approx(1)


# -- the paper's trials -------------------------------------------------------------------------------


@pytest.mark.parametrize("selectivity", [0.025, 0.1, 0.4, 0.5, 1.0])
def test_keys_match_as_often_as_they_should(selectivity: float) -> None:
    shares = key_shares(selectivity)
    assert shares.sum() == pytest.approx(1)
    assert bool(np.all(shares > 0))
    assert (shares**2).sum() == pytest.approx(selectivity)


def test_streams_of_a_setting() -> None:
    stream = Setting((1, 2), 0.2, 0.4, 500).stream(8, 1)
    assert len(stream) == pytest.approx(4_000, rel=0.1)
    assert 7_900_000 < stream.ts[-1] < 8_000_000
    assert set(stream.key) == {0, 1, 2}
    assert np.mean(stream.value > 0.8) == pytest.approx(0.2, abs=0.04)


def test_asks_of_a_setting() -> None:
    assert Setting((1, 2.5, 3), 0.25, 0.1, 9).asks == [
        Ask(1_000_000),
        Ask(2_500_000, 0.75),
        Ask(3_000_000, 0.75),
    ]
    assert Setting((1, 2), 1, 0.1, 9).asks == [Ask(1_000_000), Ask(2_000_000)]


def test_trials_agree_and_hold_what_the_formulas_say() -> None:
    setting = Setting((1, 2, 4), 0.5, 0.1, 200)
    trials, tally, answers = run_trials(setting, STRATEGIES, "scan", 12, 0.5, 2)
    outcome = Outcome("x")
    streams = [setting.stream(12, seed) for seed in (21, 31)]
    expected = expected_counts(setting.asks, *streams)
    tally.compare(outcome, "trial", answers | {"bare loop": {tally.note(expected)}})
    assert outcome.agrees
    assert [trial.strategy for trial in trials] == list(STRATEGIES)
    for trial in trials:
        assert trial.rows == sum(map(len, streams))
        assert trial.results == expected.sum()
        assert trial.service_rate > 0
        formula = expected_state(setting, trial.strategy)
        if formula is not None:
            assert trial.state_rows == pytest.approx(formula, rel=0.1)
    # Separate joins each hold their window, of A only what is selected.
    alone = next(trial.state_rows for trial in trials if trial.strategy == "unshared")
    assert alone == pytest.approx(200 * ((1 + 2 / 2 + 4 / 2) + (1 + 2 + 4)), rel=0.1)


def test_streams_that_were_shown_before_are_counted_twice_and_held_alike() -> None:
    """And a chain has the slices it is to have, or is the one with all of them."""
    setting = Setting((1, 2, 3, 4), 1, 0.1, 100, (2, 4))
    names = ("chain", AS_MERGED, "chain-cpu", "unshared")
    trials, tally, answers = run_trials(setting, names, "scan", 10, 0.5, 1, is_shown_before=True)
    once = expected_counts(setting.asks, *(setting.stream(10, seed) for seed in (21, 31)))
    outcome = Outcome("x")
    tally.compare(outcome, "trial", answers | {"bare loop": {tally.note(2 * once)}})
    assert outcome.agrees and len(answers) == 4
    assert [trial.strategy for trial in trials] == list(names)
    assert [trial.state_rows for trial in trials[:3]] == pytest.approx([2 * 100 * 4] * 3, rel=0.1)
    even = Setting((1, 2), 1, 0.1, 50, (1, 2))
    (cut, merged), _, answers = run_trials(even, ("chain", AS_MERGED), "scan", 3, 0.5, 1)
    assert (merged.cpu_s, merged.strategy, list(answers)) == (cut.cpu_s, AS_MERGED, ["chain"])


def test_slices_of_the_paper() -> None:
    assert merged_windows("uniform", 12) == many_windows("uniform", 12)
    assert merged_windows("mostly small", 12) == [10, 20, 30]
    assert merged_windows("mostly small", 24) == [10, 15, 20, 25, 30]
    assert merged_windows("small and large", 12) == merged_windows("small and large", 36) == [6, 30]


def test_windows_of_many_queries_are_the_papers_and_all_different() -> None:
    assert many_windows("uniform", 12) == [2.5 * place for place in range(1, 13)]
    assert many_windows("mostly small", 12) == [*range(1, 11), 20, 30]
    assert many_windows("small and large", 12) == [*range(1, 7), *range(25, 31)]
    for name, number in itertools.product(("uniform", "mostly small", "small and large"), (24, 36)):
        windows = many_windows(name, number)
        assert windows == sorted(set(windows))
        assert (len(windows), windows[-1]) == (number, 30)


def test_formulas_of_the_state() -> None:
    """Savings as the paper derives them for W1 = 10, W2 = 30, half of A selected, from its own terms."""
    setting = Setting((10, 30), 0.5, 0.1, 7)
    ours, pulled, pushed = (expected_state(setting, name) for name in ("chain", "pull-up", "push-down"))
    assert ours is not None and pulled is not None and pushed is not None
    share = 10 / 30
    assert (pulled - ours) / pulled == pytest.approx((1 - share) * (1 - 0.5) / 2)
    assert (pushed - ours) / pushed > 0
    assert expected_state(setting, "unshared") is None


# -- pictures and the command -------------------------------------------------------------------------


def made_up(setting: Setting, strategies: tuple[str, ...]) -> dict[str, Trial]:
    return {
        name: Trial(setting, name, 1_000, 0.01 * place, 500.0 * place, 9)
        for place, name in enumerate(strategies, start=1)
    }


def test_pictures_are_drawn(tmp_path: Path) -> None:
    scale = Scale((20, 80), 2, 90, 1, 1, (12,))
    by_windows, _, _ = trio_panels(scale)
    names = ("pull-up", "push-down", "chain")
    trials = {one: made_up(one, names) for _, group in by_windows for one in group}
    draw([by_windows], trials, MEMORY, "memory", tmp_path / "memory.png")
    rows = many_panels(scale)
    many = {one: made_up(one, ("mem-opt", "cpu-opt")) for row in rows for _, group in row for one in group}
    draw(rows, many, SERVICE, "service", tmp_path / "service.png")
    for name in ("memory", "service"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_sharing_bench_on_tiny_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("penstock.bench.race.TURN_S", 0)
    few = {case: queries[::5] for case, queries in sharing_windows.CASES.items()}
    monkeypatch.setattr(sharing_windows, "CASES", few)
    monkeypatch.setattr(
        sharing, "bench_figures", lambda *given: sharing_figures.bench_figures(*given, forms=[ALONE])
    )
    monkeypatch.setattr(
        main, "BENCHES", {"sharing": lambda quick, out, tell: bench_sharing(TINY, out, told.append)}
    )
    assert main.run(["sharing"], True, tmp_path) == 0
    kept = json.loads((tmp_path / "sharing.json").read_text())
    assert kept["answers_agree"]
    assert len(told) == 9
    groups = list(dict.fromkeys(line["group"] for line in kept["lines"]))
    assert groups == [
        "W1 to W3, windows W*i/N", "4 queries, against a join each", "4 queries, against sharing by hand",
        "W4, counted", "6 queries with selections", "few queries, rows delivered",
        "three streams, windows W*i/N", "windows over one stream",
        *(f"adding and dropping among 6 queries, {name}" for name in trials(6, 2)),
        "figures 17 and 18, separate, nested loops", "figure 19, separate, nested loops",
    ]  # fmt: skip
    assert all(line["value"] > 0 for line in kept["lines"] if line["unit"] in ("rows/s", "x"))
    targets = [line["target"] for line in kept["lines"] if line["target"]]
    figures = [
        "<= 1",
        ">= 1",
        *[">= 1.1"] * 2,
    ]  # least rows, highest rate, and clearly so if windows are skewed
    assert targets == [
        ">= 30", ">= 20", ">= 1", ">= 0.3", ">= 0.3", *[">= 0.9"] * 4,
        ">= 1", ">= 5", ">= 2", "<= 0.05", *["<= 20"] * 52,
        *figures,
    ]  # fmt: skip
    assert len(kept["data"]["trials"]) == 2 * (7 + 3)
    assert kept["pictures"] == ["sharing-fig17.png", "sharing-fig18.png", "sharing-fig19.png"]
    for picture in kept["pictures"]:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_targets_at_each_number_of_queries() -> None:
    assert sharing.KEPT == {100: 0.9, 1_000: 0.8, 10_000: 0.4}
    assert set(sharing.KEPT) <= set(sharing.FULL.numbers)
    assert main.BENCHES["sharing"] is main.run_sharing
