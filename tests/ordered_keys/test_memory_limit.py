"""Joins without windows under a limit: what is held, what goes to the disk, what goes early and is counted.

a   12 rows a second, without a pause
b   12 rows a second   ........ silent for ten minutes, then three times as fast until it has caught up
"""

from __future__ import annotations

import errno
import os
import random
import signal
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_streams import draw_arrivals, full_join
from test_ordered_join import NAMES, cuts, declared, engine_of, join_of, push, query_of, rows_of

import penstock
from penstock import Engine, PenstockWarning
from penstock.engine.ordered_keys import buffers
from penstock.engine.spool import spool_folder

FUNCTION_SCOPED = [HealthCheck.function_scoped_fixture]
SECOND_US = 1_000_000


# -- an hour -------------------------------------------------------------------------------------------------


def hour(silence: bool, step_s: int = 10) -> list[list[tuple[str, np.ndarray, np.ndarray]]]:
    """Per step, times and keys of a and b: 12 rows a second; b stops at 20 minutes for ten."""
    steps = []
    sent = 0
    for start in range(0, 3_600, step_s):
        ts = start * SECOND_US + np.arange(12 * step_s) * (SECOND_US // 12)
        rows = [("a", ts, np.arange(12 * start, 12 * (start + step_s)))]
        if not (silence and 1_200 <= start < 1_800):
            until = min(12 * (start + step_s), sent + 36 * step_s)
            keys = np.arange(sent, until)
            times = start * SECOND_US + np.arange(len(keys)) * (SECOND_US // 36)
            rows.append(("b", times, keys))
            sent = until
        steps.append(rows)
    return steps


def table_of(ts: np.ndarray, keys: np.ndarray) -> pa.Table:
    return pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": keys, "r": keys, "s": [""] * len(keys)})


@pytest.mark.parametrize("how", ["waiting", "advance", "idle"])
@pytest.mark.parametrize("options", [{"disorder": "dbf"}, {"memory_limit": "2000 rows"}])
def test_an_hour_with_a_stream_that_stops_for_ten_minutes(
    how: str, options: dict[str, Any], tmp_path: Path
) -> None:
    engine = Engine(spool=tmp_path, **options)
    idle = ", IDLE AFTER 20 SECONDS" if how == "idle" else ""
    for name in "ab":
        engine.execute(
            f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT ORDERED WITHIN 0 ROWS, r BIGINT, s VARCHAR{idle})"
        )
    query = engine.query("SELECT k, a.r AS x, b.r AS y FROM a JOIN b USING (k)", count_only=True)
    join = join_of(engine)
    held, logged, spooled = [], [], []
    for step in hour(silence=True):
        for name, ts, keys in step:
            engine.push(name, table_of(ts, keys))
        if how == "advance":
            engine.advance(int(step[0][1][-1]))
        assert join.buffers is not None
        held.append(join.buffers.rows)
        spooled.append(join.buffers.spooled_rows)
        logged.append(max(len(one.frontiers[0].log) for one in engine._runtime.streams.values()))
        engine._runtime._check()
    assert max(spooled) > 4_000, "most of the 7,200 rows of ten minutes"
    assert max(held) < 4_500 and max(logged) < 4_500, "as before, whatever has come"
    engine.close()
    assert query.count == 12 * 3_600 and query.accuracy == 1.0
    assert join.state_rows == 0 and join.buffers.spooled_rows == 0
    assert not list(tmp_path.rglob("*.rows"))


# -- kill -9 -------------------------------------------------------------------------------------------------


def work(engine: Engine, parts: list[Any], first: int, checkpoint: Path) -> None:
    for at in range(first, len(parts)):
        push(engine, parts[at])
        if at % 3 == 2:
            engine.checkpoint(checkpoint, note={"next": at + 1})


def killed_at(write: int, share: float, run: Any) -> bool:
    """Run it in a child that is killed at a write, after this share of its bytes; whether it was."""
    child = os.fork()
    if not child:
        try:
            real = spool_folder.SpoolFolder.write
            count = 0

            def wrote(self: Any, path: str | None, blocks: Any) -> Any:
                nonlocal count
                count += 1
                if count < write:
                    return real(self, path, blocks)
                if share == 1:
                    real(self, path, blocks)
                else:
                    data = b"".join(bytes(memoryview(one).cast("B")) for one in blocks)
                    path = path or self.new_file()
                    with open(path, "ab") as file:
                        file.write(data[: int(share * len(data))])
                os.kill(os.getpid(), signal.SIGKILL)
                return None

            spool_folder.SpoolFolder.write = wrote  # type: ignore[method-assign]
            run()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_nothing_is_lost_or_doubled_after_kill_9_at_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "AHEAD_ROWS", 4)
    dice = random.Random(5)
    arrivals = draw_arrivals(dice, 3, 60)
    rules = [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, 3)]
    parts = [arrivals[at : at + 12] for at in range(0, len(arrivals), 12)]
    points = 0
    for write in range(1, 1_000):
        was_killed = False
        for share in (0, 0.5, 1):
            folder = tmp_path / f"{write} {share}"
            state = folder / "state"

            def begin(folder: Path = folder) -> Engine:
                engine = engine_of(rules, disorder="dbf", spool=folder)
                query_of(engine, 3)
                return engine

            was_killed = killed_at(write, share, lambda b=begin, s=state: work(b(), parts, 0, s))
            if not was_killed:
                break
            points += 1
            engine = Engine.restore(state) if state.exists() else begin()
            work(engine, parts, engine.note.get("next", 0), state)
            engine.close()
            (query,) = engine.queries.values()
            assert sorted(rows_of(query)) == full_join(arrivals, 3), f"killed at write {write}, at {share}"
            assert len(list(folder.rglob("penstock-*"))) == 1, "what was left is taken over, or gone"
        if not was_killed:
            break
    assert points >= 15


# -- a limit -------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=50, suppress_health_check=FUNCTION_SCOPED)
def test_a_limit_is_kept_and_what_is_missed_is_counted(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    streams = dice.randint(2, 4)
    arrivals = draw_arrivals(dice, streams, 120)
    rules = [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, streams)]
    limit = dice.choice((10, 40, 200))
    spool = {"spool": tmp_path} if dice.random() < 0.5 else {}
    engine = engine_of(rules, memory_limit=f"{limit} rows", evict=dice.choice(("key", "fifo")), **spool)
    query = query_of(engine, streams)
    join = join_of(engine)
    assert join.buffers is not None
    for part in cuts(dice, arrivals):
        push(engine, part)
        engine._runtime._check()
        assert (
            join.buffers.rows
            <= limit + sum(map(len, join.buffers.sorters)) + 2 * streams * buffers.LEAST_AHEAD
        )
    gone = join.buffers.rows_gone_early
    engine.close()
    found, there = Counter(rows_of(query)), Counter(full_join(arrivals, streams))
    assert not found - there
    missed = sum((there - found).values())
    assert missed <= join.missed.most and (gone or not missed)
    assert query.accuracy <= (found.total() / there.total() if there else 1.0)


def test_first_nothing_then_the_disk_then_sorting(tmp_path: Path) -> None:
    """A limit far away changes nothing; one that is near does what it must."""
    keys = np.arange(30_000)
    dice = np.random.default_rng(1)
    scrambled = np.argsort(keys + dice.uniform(0, 500, len(keys)), kind="stable")
    found = {}
    for limit in ("1000000 rows", "12000 rows", "1600 rows"):
        engine = engine_of(["ORDERED WITHIN 700 ROWS"] * 3, memory_limit=limit, spool=tmp_path)
        query = engine.query("SELECT k FROM a JOIN b USING (k) JOIN c USING (k)", count_only=True)
        for at in range(0, len(keys), 500):
            for name, behind in (("a", 0), ("b", 0), ("c", 8_000)):
                own = scrambled[max(0, at - behind) : max(0, at + 500 - behind)]
                if len(own):
                    engine.push(name, table_of(at + np.arange(len(own)), own))
            engine.advance(at + 499)
        for at in range(len(keys) - 8_000, len(keys), 500):
            engine.push("c", table_of(len(keys) + at + np.arange(500), scrambled[at : at + 500]))
        facts = engine.stats()["queries"]["q1"]["oblivious"]
        text = engine.explain(analyze=True)
        engine.close()
        found[limit] = facts["strategy"]
        assert "rows as the model has them: none" in text
        assert query.count == len(keys) or facts["rows_gone_early"]
        assert (query.count == len(keys)) == (query.accuracy == 1.0)
    assert found == {"1000000 rows": "none", "12000 rows": "dbf", "1600 rows": "hybrid"}


def test_a_disk_that_is_full_is_told_and_the_next_best_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(3)
    arrivals = draw_arrivals(dice, 2, 120)
    rules = [f"ORDERED WITHIN {k} ROWS" for k in declared(arrivals, 2)]
    monkeypatch.setattr(buffers, "AHEAD_ROWS", 4)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool_folder.SpoolFolder, "new_file", full)
    engine = engine_of(rules, disorder="dbf", spool=tmp_path)
    query = query_of(engine, 2)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", PenstockWarning)
        for at in range(0, len(arrivals), 10):
            push(engine, arrivals[at : at + 10])
    (told,) = warned
    assert "no room left: they stay in memory" in str(told.message)
    engine.close()
    assert sorted(rows_of(query)) == full_join(arrivals, 2) and query.accuracy == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"disorder": "disk"}, "Expected disorder to be one of auto, none, msf, dbf, hybrid, found `disk`"),
        ({"disorder": "dbf"}, "Expected spool=FOLDER with disorder=`dbf`, found none"),
        ({"spool_limit": "1 GB"}, "Expected spool=FOLDER with spool_limit, found none"),
        ({"spool": 3}, "Expected spool as the path of a folder, found int"),
        ({"spool": "", "memory_limit": 5}, "Expected spool as the path of a folder, found `''`"),
        ({"spool": "a\0b", "memory_limit": 5}, "Expected spool as the path of a folder, found `'a"),
        ({"spool": "a"}, "Expected memory_limit, or disorder=`dbf` or `hybrid`, with spool, found neither"),
        (
            {"memory_limit": 0},
            "Expected memory_limit such as `200 MB` or `100000 rows`, or an integer of bytes",
        ),
        ({"memory_limit": True}, "Expected memory_limit such as .*, found `True`"),
        ({"memory_limit": "much"}, "Expected memory_limit such as .*, found `'much'`"),
        ({"memory_limit": "1.5 rows"}, "Expected memory_limit such as"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(penstock.UsageError, match=message):
        Engine(**options)


def test_options_are_read(tmp_path: Path) -> None:
    with pytest.raises(penstock.UsageError, match="Expected spool_limit as bytes such as `10 GB`"):
        Engine(spool=tmp_path, spool_limit="10 rows")
    engine = Engine(spool=tmp_path, spool_limit="1.5 kB", memory_limit=1_000_000, disorder="hybrid")
    options = engine.options
    assert [options[name] for name in ("disorder", "memory_limit", "spool", "spool_limit")] == [
        "hybrid", 1_000_000, os.fspath(tmp_path), "1.5 kB",
    ]  # fmt: skip
    rules = engine._memory.rules
    assert rules.folder is not None and rules.folder.limit == 1_536 and rules.limit_bytes == 1_000_000
    assert NAMES


# -- what is said --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "limit"),
    [("memory_limit", {"memory_limit": "10 rows"}), ("disorder=`msf`", {"disorder": "msf"})],
)
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k FROM a LEFT JOIN b USING (k)", "LEFT JOIN"),
        ("SELECT k FROM a ANTI JOIN b USING (k)", "ANTI JOIN"),
        ("SELECT k FROM a JOIN b [RANGE 5 SECONDS] USING (k)", "a window beside ORDERED"),
        ("SELECT k FROM p JOIN q USING (d, k)", "ORDERED PER column"),
        ("SELECT k FROM a JOIN b USING (k)", None),
    ],
)
def test_who_keeps_all_in_memory_is_told(sql: str, why: str | None, said: str, limit: dict[str, Any]) -> None:
    columns = "ts TIMESTAMP, d BIGINT, k BIGINT ORDERED WITHIN 2 ROWS"
    streams = "".join(f"CREATE STREAM {name} ({columns});" for name in "ab")
    streams += "".join(f"CREATE STREAM {name} ({columns} PER d);" for name in "pq")
    engine, free = Engine(**limit), Engine()
    for one in (engine, free):
        one.execute(streams)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        engine.query(sql, name="x")
    shown = f"{why}: all that can be met is in memory, whatever the limit"
    expected = f"Expected a join that {said} is for, found {why} in query `x`"
    expected += ": all that can be met stays in memory"
    assert [str(one.message) for one in told] == ([expected] if why else [])
    assert (shown in engine.explain()) == bool(why)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free.query(sql, name="x")
    assert "whatever the limit" not in free.explain()


def test_rows_on_the_disk_wait_too(tmp_path: Path) -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS"] * 2, disorder="dbf", spool=tmp_path)
    query_of(engine, 2)
    keys = np.arange(10_000)
    for at in range(0, len(keys), 500):
        engine.push("a", table_of(keys[at : at + 500], keys[at : at + 500]))
    (facts,) = engine.stats()["queries"].values()
    assert facts["oblivious"]["spooled_rows"] > 5_000
    assert facts["waiting"]["rows"] == len(keys) and facts["waiting"]["stream"] == "b"
    assert "waiting: 10,000 rows" in engine.explain(analyze=True)
