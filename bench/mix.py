"""Figures 2 to 4 and Table 3 of the window-join paper, with our indexes: estimated against measured.

A combination is named as in the paper: the first letter is the index on window A, the second that on window
B; H hash, T T-tree, N none (scan). Windows are counted in rows (physical, as the paper's), so that they stay
full whatever the mix of rates; rows of both streams come in random order. A cost is seconds of one core per
row of input, which is the paper's cost per unit of time for rates that add up to one.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.optimizer.costs.cost import Direction, direction_cost
from penstock.optimizer.costs.weights import Weights

from .drive import start
from .streams import VALUES

COMBINATIONS = ("HH", "TT", "HT", "TH", "HN", "NH", "TN", "NT")
INDEXES = {"H": "hash", "T": "t-tree", "N": "scan"}
KEYS_PER_ROW = 1.0  # of the bigger window: about one match per probe
TIE = 0.1  # costs that differ by less cannot be told apart
SLICE_ROWS = 65_536

PAPER_MIX = (5_000, 5_000)
TABLE_3 = ((9_500, 500, 2, 998), (7_000, 3_000, 800, 200), (4_000, 6_000, 550, 450))


@dataclass(frozen=True, slots=True)
class Setting:
    """Rows in each window, and the share of the rows that come on A."""

    rows_a: int
    rows_b: int
    share_a: float

    @property
    def keys(self) -> int:
        return round(max(self.rows_a, self.rows_b) * KEYS_PER_ROW)


@dataclass(frozen=True, slots=True)
class Point:
    """Seconds per row of each combination."""

    setting: Setting
    estimated: dict[str, float]
    measured: dict[str, float]

    @property
    def expected_winner(self) -> str:
        return min(self.estimated, key=self.estimated.__getitem__)

    @property
    def winner(self) -> str:
        return min(self.measured, key=self.measured.__getitem__)

    @property
    def is_tie(self) -> bool:
        """Whether the two best cannot be told apart."""
        best, second = sorted(self.measured.values())[:2]
        return second < best * (1 + TIE)

    @property
    def regret(self) -> float:
        """How much more the expected winner costs than the best."""
        return self.measured[self.expected_winner] / self.measured[self.winner] - 1


def estimate(setting: Setting, combination: str, weights: Weights) -> float:
    """Seconds per row that the cost model expects."""
    share_a, share_b = setting.share_a, 1 - setting.share_a
    on_a = Direction(share_b, share_a, setting.rows_a, setting.rows_a / setting.keys)
    on_b = Direction(share_a, share_b, setting.rows_b, setting.rows_b / setting.keys)
    index_a, index_b = (INDEXES[letter] for letter in combination)
    return direction_cost(index_a, on_a, weights) + direction_cost(index_b, on_b, weights) + weights.row


class Workload:
    """The rows of one setting: windows filled first, then `rows` in the given mix."""

    def __init__(self, setting: Setting, rows: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.setting = setting
        self.rows = rows
        full = max(setting.rows_a, setting.rows_b)
        filling = np.arange(full)
        self.filling = tuple(
            arrival_table(filling[-size:], setting.keys, rng) for size in (setting.rows_a, setting.rows_b)
        )
        ts = full + np.arange(rows)
        on_a = rng.random(rows) < setting.share_a
        self.slices = []
        for begin in range(0, rows, SLICE_ROWS):
            part, here = ts[begin : begin + SLICE_ROWS], on_a[begin : begin + SLICE_ROWS]
            tables = [arrival_table(part[chosen], setting.keys, rng) for chosen in (here, ~here)]
            self.slices.append((*tables, int(part[-1]) + 1))

    def run(self, combination: str) -> tuple[float, int]:
        """(seconds of processor time per row, pairs) with the windows full from the start."""
        a, b = self.setting.rows_a, self.setting.rows_b
        sql = f"SELECT a.value FROM a [ROWS {a}] JOIN b [ROWS {b}] ON a.key = b.key"
        engine, query = start(sql, True, tuple(INDEXES[letter] for letter in combination))  # type: ignore[arg-type]
        for name, table in zip("ab", self.filling, strict=True):
            engine.push(name, table)
        engine.advance(max(a, b))
        before = query.count
        began = time.process_time()
        for new_a, new_b, now in self.slices:
            engine.push("a", new_a)
            engine.push("b", new_b)
            engine.advance(now)
        seconds = time.process_time() - began
        return seconds / self.rows, query.count - before


def arrival_table(ts: np.ndarray, keys: int, rng: np.random.Generator) -> pa.Table:
    values = rng.integers(0, VALUES, len(ts)).astype(np.float64)
    columns = {"ts": pa.array(ts, pa.timestamp("us")), "key": rng.integers(0, keys, len(ts)), "value": values}
    return pa.table(columns)


def measure_points(
    settings: list[Setting], rows: int, rounds: int, weights: Weights
) -> tuple[list[Point], dict[str, dict[str, set[int]]]]:
    """Every combination at every setting, in turn, the best of the rounds; and the pairs each found."""
    points = []
    answers: dict[str, dict[str, set[int]]] = {}
    for setting in settings:
        workload = Workload(setting, rows)
        measured = dict.fromkeys(COMBINATIONS, float("inf"))
        found: dict[str, set[int]] = {combination: set() for combination in COMBINATIONS}
        for _, combination in itertools.product(range(rounds), COMBINATIONS):
            seconds, pairs = workload.run(combination)
            measured[combination] = min(measured[combination], seconds)
            found[combination].add(pairs)
        estimated = {combination: estimate(setting, combination, weights) for combination in COMBINATIONS}
        points.append(Point(setting, estimated, measured))
        answers[f"windows {setting.rows_a}/{setting.rows_b}, {setting.share_a:.2%} on A"] = found
    return points, answers


def hit_rate(points: list[Point]) -> tuple[float, int]:
    """(share of the points outside ties at which the model names the measured winner, how many those are)."""
    clear = [point for point in points if not point.is_tie]
    hits = sum(point.expected_winner == point.winner for point in clear)
    return (hits / len(clear) if clear else 1.0), len(clear)
