"""Measuring, keeping and reading back the weights of the cost model."""

from __future__ import annotations

import dataclasses
import json
import math
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.engine.indexes.build import INDEX_KINDS, build_index
from penstock.engine.rows.errors import DataError
from penstock.optimizer.calibrate import calibrate_hopping
from penstock.optimizer.calibrate.calibrate import calibrate, fit, machine, misfit, replace_rows, route_pairs
from penstock.optimizer.calibrate.calibrate_hopping import fit as fit_hopping
from penstock.optimizer.costs import weights as stored
from penstock.optimizer.costs.weights import SHIPPED, Weights, load, read, save

SHARING = ("slice_row", "shelf_probe", "route", "key_count", "deal")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty configuration folder, and no weights remembered before or after."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    load.cache_clear()
    yield tmp_path
    load.cache_clear()


@pytest.fixture(scope="module")
def measured() -> tuple[Weights, list[str]]:
    lines: list[str] = []
    return calibrate(lines.append, quick=True), lines


def numbers(weights: Weights) -> dict[str, float]:
    return {name: value for name, value in dataclasses.asdict(weights).items() if name != "machine"}


def test_quick_calibration_gives_usable_weights(measured: tuple[Weights, list[str]]) -> None:
    weights, lines = measured
    for name, value in numbers(weights).items():
        assert 0 < value < 1e-3, name
        assert math.isfinite(value), name
    # a row of a scan is compared with others at once; one in a tree or a bucket is looked for
    assert weights.scan_search < weights.hash_search
    assert weights.scan_search < weights.ttree_search
    # looking into one more index is dearer than comparing a pair once more, cheaper than taking a row in
    assert weights.route < weights.shelf_probe < weights.row
    assert weights.route < weights.slice_pair
    # a turn in Python is dearer than one of many in a kernel
    assert weights.slice_turn < weights.given_turn
    assert [line.split(":")[0] for line in lines[: len(INDEX_KINDS)]] == list(INDEX_KINDS)
    assert lines[-4].startswith("shared joins: ")
    assert lines[-3].startswith("incremental joins, kept or found again: ")
    assert lines[-2].startswith("chains that give pairs: ")
    assert lines[-1].startswith("hopping queries: ")


def test_machine_names_no_machine() -> None:
    assert socket.gethostname() not in machine()
    assert "/" not in machine()
    assert "cores" in machine()


def test_shipped_weights_are_measured() -> None:
    assert read(SHIPPED).machine not in ("unknown", "unmeasured")


def test_saved_weights_are_loaded(home: Path, measured: tuple[Weights, list[str]]) -> None:
    assert load() == read(SHIPPED)
    path = save(measured[0])
    assert path == home / "weights.json"
    assert load() == measured[0]
    assert [entry.name for entry in home.iterdir()] == ["weights.json"]


def test_weights_stored_before_joins_were_shared_are_read(home: Path) -> None:
    """What they lack is as the package has it, to the order of magnitude."""
    shipped = dataclasses.asdict(read(SHIPPED))
    older = {name: value for name, value in shipped.items() if name not in SHARING}
    (home / "weights.json").write_text(json.dumps(older))
    loaded = dataclasses.asdict(load())
    assert {name: loaded[name] for name in older} == older
    for name in SHARING:
        assert shipped[name] / 3 < loaded[name] < 3 * shipped[name]


def test_weights_that_are_no_longer_asked_for_are_passed_over(home: Path) -> None:
    older = dataclasses.asdict(read(SHIPPED)) | dict.fromkeys(stored.FORMER, 1e-9)
    (home / "weights.json").write_text(json.dumps(older))
    assert load() == read(SHIPPED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[1, 2]",
        "{}",
        json.dumps(dict.fromkeys(numbers(read(SHIPPED)), 1e-9) | {"scan_search": -1}),
        json.dumps(dict.fromkeys(numbers(read(SHIPPED)), 1e-9) | {"pair": float("nan")}),
        json.dumps(dict.fromkeys(numbers(read(SHIPPED)), 1e-9) | {"pair": "soon"}),
        json.dumps(dict.fromkeys(numbers(read(SHIPPED)), 1e-9) | {"unheard_of": 1}),
    ],
)
def test_a_corrupt_file_gives_one_clear_line(home: Path, text: str) -> None:
    path = home / "weights.json"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        load()
    message = str(caught.value)
    assert "\n" not in message
    assert "`penstock calibrate`" in message
    assert str(path) in message
    assert path.read_text() == text


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PENSTOCK_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert stored.folder() == tmp_path / "penstock"


def test_fit_is_exact_where_cost_is_proportional() -> None:
    points = [(accesses, 3e-9 * accesses) for accesses in (1.0, 10.0, 5_000.0)]
    assert fit(points) == pytest.approx(3e-9)
    assert misfit(points, 3e-9) == pytest.approx(0)


def test_fit_minimises_the_relative_error() -> None:
    points = [(1.0, 2.0), (1_000.0, 1_000.0), (50.0, 40.0)]

    def error(weight: float) -> float:
        return sum((weight * accesses / seconds - 1) ** 2 for accesses, seconds in points)

    best = fit(points)
    assert error(best) < min(error(0.99 * best), error(1.01 * best))


def test_the_router_that_is_timed_finds_what_each_query_takes() -> None:
    ages, values, windows, lows = np.random.default_rng(7).integers(0, 20, (4, 12))
    windows, lows = windows[:5], lows[:5]
    taken = np.full(12, -1)
    naive = [
        np.flatnonzero((ages < w) & (values >= low)).tolist() for w, low in zip(windows, lows, strict=True)
    ]
    assert route_pairs(ages, values, windows, lows, taken) == sum(map(len, naive))
    assert taken[: len(naive[-1])].tolist() == naive[-1]


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_an_update_run_keeps_the_window_full(kind: str) -> None:
    """What is timed as update is one row in and one out, with nothing left behind."""
    keys = np.random.default_rng(5).integers(0, 50, 1_000)
    index = build_index(kind, 0, keys[:100])
    for begin in range(100, 1_000, 300):
        replace_rows(index, keys[begin : begin + 300], begin, 100)
        index._check()
        assert index.keys.tolist() == keys[begin + 200 : begin + 300].tolist()


SCALE = [1, 100, 1e4, 10, 1]
USUAL = np.array([2.0, 3e-2, 4e-5, 0.5, 5.0])


def some_counts(points: int = 400) -> NDArray:
    return np.random.default_rng(5).random((points, 5)) ** 8 * SCALE + 1e-3


@pytest.mark.parametrize("speed", [0.01, 1.0, 30.0])
def test_fit_of_hopping_weights_finds_what_made_the_times(speed: float) -> None:
    """Times made of known weights give them back, on whatever machine; noise of a few percent stays one."""
    weights = speed * np.array([3.0, 2e-2, 5e-5, 0.9, 7.0])
    counts = some_counts()
    assert fit_hopping(counts, counts @ weights, USUAL) == pytest.approx(weights, rel=0.03)
    noise = np.random.default_rng(6).lognormal(0, 0.1, len(counts))
    assert fit_hopping(counts, counts @ weights * noise, USUAL) == pytest.approx(weights, rel=0.1)


def test_hopping_weights_that_are_not_told_apart_share_as_usual() -> None:
    """Two that always count together, and one that never does: they keep their usual ratio."""
    counts = some_counts()
    counts[:, 1] = 50 * counts[:, 0]
    counts[:, 4] = 0
    weights = 2 * USUAL
    found = fit_hopping(counts, counts @ weights, USUAL)
    assert found == pytest.approx(weights, rel=0.03)
    found = fit_hopping(counts, counts @ (weights * [1.5, 1, 1, 1, 1]), USUAL)
    both = found[0] + 50 * found[1]
    assert both == pytest.approx(1.5 * weights[0] + 50 * weights[1], rel=0.05)
    assert found[:2] / weights[:2] == pytest.approx([1.25, 1.25], abs=0.25)
    assert found[4] == pytest.approx(weights[4], rel=0.3)


def test_no_hopping_weight_is_free() -> None:
    """One that would have to be negative is a tenth of what is usual."""
    counts = some_counts()
    times = np.maximum(counts @ (USUAL * [1, -3, 1, 1, 1]), 0.05 * (counts @ USUAL))
    found = fit_hopping(counts, times, USUAL)
    assert (found > 0).all() and found[1] == found.min(where=np.arange(5) == 1, initial=np.inf)
    assert found[1] < 0.3 * USUAL[1]


def test_the_latest_of_a_hop_is_not_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """All points are run before one is run again, and of each hop the best run counts."""
    asked: list[int] = []
    seconds = iter([[3.0, 1.0], [9.0, 9.0], [1.0, 3.0], [7.0, 11.0]])

    def run(point: int, *_: object) -> list[float]:
        asked.append(point)
        return next(seconds)

    monkeypatch.setattr(calibrate_hopping, "run", run)
    found = calibrate_hopping.measure([(1, None), (2, None)], None, None, 2)  # type: ignore[list-item, arg-type]
    assert asked == [1, 2, 1, 2]
    assert found.tolist() == [1.0, 8.0]
