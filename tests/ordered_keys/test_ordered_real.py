"""Messages of three devices as they arrived over a mobile network, joined by their numbers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from ordered_streams import factor_of
from work_of import sub_plans_of

from penstock import Engine
from penstock.engine.intake import key_sequences

DEVICES = {"a": "dev_15", "b": "dev_7", "c": "dev_2"}


def arrivals(real_data: Path) -> list[tuple[str, int]]:
    """Stream and number of each message, in the order in which they arrived."""
    table = pq.read_table(real_data / "ooo_iot_umts.parquet")
    table = table.filter(pc.equal(table["session"], "d-1")).sort_by("arrival_seq")
    names = {device: name for name, device in DEVICES.items()}
    rows = zip(table["device"].to_pylist(), table["msg_id"].to_pylist(), strict=True)
    return [(names[device], number) for device, number in rows if device in names]


@pytest.mark.parametrize(("evict", "peaks"), [("key", [11, 9, 9]), ("fifo", [20, 15, 10])])
def test_real_disorder(evict: str, peaks: list[int], real_data: Path) -> None:
    come = arrivals(real_data)
    factors = {name: factor_of([number for one, number in come if one == name]) for name in DEVICES}
    assert factors == {"a": 9, "b": 6, "c": 1}
    engine = Engine(evict=evict)
    for name, factor in factors.items():
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, n BIGINT ORDERED WITHIN {factor} ROWS)")
    query = engine.query("SELECT n FROM a JOIN b USING (n) JOIN c USING (n)")
    most = [0, 0, 0]
    (part,) = sub_plans_of(engine)
    sides = part.operators[0].sides  # type: ignore[attr-defined]
    for ts, (name, number) in enumerate(come, 1):
        engine.push(name, {"ts": pa.array([ts], pa.timestamp("us")), "n": [number]})
        engine.advance(ts)
        most = [max(one, len(side)) for one, side in zip(most, sides, strict=True)]
    assert query.count == 1_200 and query.accuracy == 1.0
    assert most == peaks


@pytest.mark.parametrize(("warm", "results"), [(0, 1_197), (key_sequences.WARM_ROWS, 1_200)])
def test_real_disorder_that_is_measured(
    warm: int, results: int, monkeypatch: pytest.MonkeyPatch, real_data: Path
) -> None:
    monkeypatch.setattr(key_sequences, "WARM_ROWS", warm)
    come = arrivals(real_data)
    engine = Engine()
    for name in DEVICES:
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, n BIGINT ORDERED)")
    query = engine.query("SELECT n FROM a JOIN b USING (n) JOIN c USING (n)")
    for ts, (name, number) in enumerate(come, 1):
        engine.push(name, {"ts": pa.array([ts], pa.timestamp("us")), "n": [number]})
    engine.advance(len(come))
    assert query.count == results
    assert 0.99 < query.accuracy <= results / 1_200
