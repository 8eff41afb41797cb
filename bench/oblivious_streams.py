"""Streams of the paper's Query 1: keys that grow, scrambled, with a congestion and a burst.

Keys are sequential, each twice; row i of a stream goes to the rank of i + U(0, k). Rows come as in a Poisson
process. The second stream falls to an eighth of its rate from a twelfth of the time to a third of it, and
stays behind from then on; the third has eight times its rate from two thirds on for a twelfth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

FACTORS = {"a": 200, "b": 350, "c": 500}  # how far rows are moved, at most
COPIES = 2
GAP_US = 20_000


@dataclass(frozen=True)
class Rows:
    """One stream: times in microseconds, keys, and the scrambling factor that they turn out to have."""

    ts: NDArray
    keys: NDArray
    factor: int

    @property
    def table(self) -> pa.Table:
        ts = pa.array(self.ts, pa.timestamp("us"))
        return pa.table({"ts": ts, "k": self.keys, "v": np.arange(len(self.keys))})


def draw_streams(
    seconds: int, seed: int, is_disturbed: bool, factors: Mapping[str, int] = FACTORS
) -> dict[str, Rows]:
    """All three; is_disturbed: with congestion and burst."""
    random = np.random.default_rng(seed)
    found = {}
    for name, reach in factors.items():
        pace = paces(name, seconds) if is_disturbed else [(0.0, 1.0)]
        ts = arrivals(random, seconds, pace)
        keys = np.arange(len(ts)) // COPIES
        keys = keys[np.argsort(np.arange(len(ts)) + random.uniform(0, reach, len(ts)), kind="stable")]
        found[name] = Rows(ts, keys, factor_of(keys))
    return found


def paces(name: str, seconds: int) -> list[tuple[float, float]]:
    """From when on rows come how many times as fast."""
    if name == "b":
        return [(0.0, 1.0), (seconds / 12, 1 / 8), (seconds / 3, 1.0)]
    if name == "c":
        return [(0.0, 1.0), (seconds * 2 / 3, 8.0), (seconds * 3 / 4, 1.0)]
    return [(0.0, 1.0)]


def arrivals(random: np.random.Generator, seconds: int, pace: Sequence[tuple[float, float]]) -> NDArray:
    """Times of a Poisson process whose pace changes."""
    parts = []
    ends = [start for start, _ in pace[1:]] + [float(seconds)]
    for (start, times), end in zip(pace, ends, strict=True):
        number = random.poisson((end - start) * 1e6 * times / GAP_US)
        parts.append(np.sort(random.uniform(start * 1e6, end * 1e6, number)))
    return np.concatenate(parts).astype(np.int64) + 1


def factor_of(keys: NDArray) -> int:
    """How far behind the first key that is not less a key comes, at most."""
    most = np.maximum.accumulate(keys)
    return int((np.arange(len(keys)) - most.searchsorted(keys)).max(initial=0))
