"""The commands beside `run`: explain, calibrate, bench, and what --help and --version tell."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from cli_help import (
    HUMIDITY,
    INPUTS,
    SQL,
    TEMPERATURE,
    finish,
    folder_with_inputs,  # noqa: F401
    invoke,
    refusal,
    start,
)

import penstock


def test_explain_is_the_engines(here: Path) -> None:
    engine = penstock.Engine()
    engine.execute(SQL)
    assert invoke("explain", "q.sql").stdout.strip() == engine.explain().strip()
    assert json.loads(invoke("explain", "q.sql", "--json").stdout) == json.loads(engine.explain(json=True))


def test_explain_takes_the_rates_from_the_files(here: Path) -> None:
    engine = penstock.Engine()
    engine.execute(SQL.partition("CREATE QUERY")[0])
    for name, table in (("temperature", TEMPERATURE), ("humidity", HUMIDITY)):
        times = table["ts"].cast(pa.int64()).to_numpy()
        engine.set_rate(name, (len(times) - 1) / ((times[-1] - times[0]) / 1e6))
    engine.execute("CREATE QUERY" + SQL.partition("CREATE QUERY")[2])
    assert invoke("explain", "q.sql", *INPUTS).stdout.strip() == engine.explain().strip()
    assert engine.explain() != invoke("explain", "q.sql").stdout


def test_calibrate_shows_and_stores_what_it_measured(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.optimizer.calibrate import calibrate
    from penstock.optimizer.costs import weights

    def measure(progress: object) -> weights.Weights:
        assert callable(progress)
        progress("measuring")
        return weights.load()

    monkeypatch.setenv("PENSTOCK_HOME", str(here / "home"))
    monkeypatch.setattr(calibrate, "calibrate", measure)
    result = invoke("calibrate")
    assert result.stderr == "measuring\n"
    assert f"{weights.load().hash_search * 1e9:,.2f}" in result.stdout
    assert weights.read(here / "home" / "weights.json") == weights.load()


def test_bench_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "polars" else find(name))
    assert refusal("bench", code=2) == (
        "Error: Expected the benchmarks' packages, found no `polars`; pip install 'penstock[bench]'"
    )


def test_version_and_help() -> None:
    code, out, _ = finish(start("--version"))
    assert (code, out.strip()) == (0, f"penstock, version {penstock.__version__}")
    code, out, _ = finish(start("run", "--help"))
    assert code == 0
    assert "penstock run queries.sql -i temperature=temps.parquet -i humidity='hum/*.csv' -o results/" in out
    code, out, _ = finish(start("--help"))
    for name in ("run", "explain", "demo", "calibrate", "bench"):
        assert f"\n  {name} " in out
