"""An hour of made-up sensor readings for the demo: different every time a seed says so, else the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

LOCATIONS = 36
HOUR_S = 3600
TEMPERATURE_RATE = 200  # readings per second, all locations together
HUMIDITY_RATE = 100
START_US = 1_782_910_800_000_000  # 2026-07-01 13:00:00
HEAT_WAVES = 45

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

QUERIES = """\
CREATE STREAM temperature (ts TIMESTAMP, location INT, value DOUBLE);
CREATE STREAM humidity    (ts TIMESTAMP, location INT, value DOUBLE);

-- Dry heat: above 38 degrees and more than two degrees for every percent of
-- humidity, read within five seconds at one place.
CREATE QUERY dry_heat AS
  SELECT t.location, t.value AS celsius, h.value AS humidity
  FROM humidity    [RANGE 5 SECONDS] AS h
  JOIN temperature [RANGE 5 SECONDS] AS t ON t.location = h.location
  WHERE t.value > 38 AND t.value > 2 * h.value;

-- The fire brigade asks for more of both, and looks back for ten seconds.
CREATE QUERY fire_risk AS
  SELECT t.location, t.value AS celsius, h.value AS humidity
  FROM humidity    [RANGE 10 SECONDS] AS h
  JOIN temperature [RANGE 10 SECONDS] AS t ON t.location = h.location
  WHERE t.value > 40 AND t.value > 3 * h.value;

-- The siren asks for still more, and looks back for fifteen.
CREATE QUERY siren AS
  SELECT t.location, t.value AS celsius, h.value AS humidity
  FROM humidity    [RANGE 15 SECONDS] AS h
  JOIN temperature [RANGE 15 SECONDS] AS t ON t.location = h.location
  WHERE t.value > 42 AND t.value > 4 * h.value;
"""


def write_demo(folder: Path, seed: int = 7) -> int:
    """Writes the two streams and the queries into `folder`; returns the rows written."""
    rng = np.random.default_rng(seed)
    waves = _heat_waves(rng)
    temperature = _readings(rng, TEMPERATURE_RATE)
    warm = _heat(temperature, waves)
    base = 22 + 5 * np.sin(np.arange(LOCATIONS))
    celsius = base[temperature[1]] + warm + rng.normal(0, 0.6, len(warm))
    humid = _readings(rng, HUMIDITY_RATE)
    percent = 55 - 2.4 * _heat(humid, waves) + 12 * np.cos(humid[1]) + rng.normal(0, 3, len(humid[0]))
    pq.write_table(_table(temperature, celsius), folder / "temperature.parquet")
    pa_csv.write_csv(_table(humid, np.clip(percent, 3, 100)), folder / "humidity.csv")
    (folder / "queries.sql").write_text(QUERIES)
    return len(celsius) + len(percent)


def _readings(rng: np.random.Generator, rate: int) -> tuple[Ints, Ints]:
    """Times, microseconds since the start, in order, and where."""
    count = rate * HOUR_S
    times = np.sort(rng.integers(0, HOUR_S * 1_000_000, count))
    return times, rng.integers(0, LOCATIONS, count)


def _heat_waves(rng: np.random.Generator) -> list[tuple[int, float, float, float]]:
    """Location, start and length in seconds, and degrees at the height of it."""
    return [
        (
            int(rng.integers(LOCATIONS)),
            rng.uniform(60, HOUR_S - 300),
            rng.uniform(60, 240),
            rng.uniform(11, 17),
        )
        for _ in range(HEAT_WAVES)
    ]


def _heat(readings: tuple[Ints, Ints], waves: list[tuple[int, float, float, float]]) -> Floats:
    """Degrees above the usual: each wave rises and falls like a sine."""
    seconds, locations = readings[0] / 1e6, readings[1]
    heat = np.zeros(len(seconds))
    for location, start_s, length_s, degrees in waves:
        phase = (seconds - start_s) / length_s
        inside = (locations == location) & (phase > 0) & (phase < 1)
        heat[inside] += degrees * np.sin(np.pi * phase[inside])
    return heat


def _table(readings: tuple[Ints, Ints], values: Floats) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(START_US + readings[0], pa.timestamp("us")),
            "location": readings[1],
            "value": values.round(2),
        }
    )
