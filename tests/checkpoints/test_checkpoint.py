"""Checkpoints as a user meets them: what they keep, what they refuse, what survives a crash."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import pytest
from checkpoint_help import Twins, again
from test_replan import the_other
from work_of import sub_plans_of

import penstock
from penstock import adapt
from penstock import engine as rooms
from penstock.engine.changes import aggregates
from penstock.engine.checkpoints.checkpoint import CHECKSUM, FORMAT_VERSION, FRONT, MAGIC, checksum
from penstock.engine.checkpoints.object_graph import Walk
from penstock.engine.flow.scheduler import RoundRobin
from penstock.engine.restoring.restorable import restorable
from penstock.engine.rows.errors import CheckpointError
from penstock.engine.selects.select import Select
from penstock.optimizer.plan import choose_expiry

STREAMS = """
    CREATE STREAM a (ts TIMESTAMP, k BIGINT ORDERED, v DOUBLE, s VARCHAR);
    CREATE STREAM b (ts TIMESTAMP, k BIGINT ORDERED WITHIN 3, v DOUBLE, s VARCHAR);
    CREATE TABLE t (k BIGINT, label VARCHAR);
"""
QUERIES = [
    "SELECT x.k, y.v FROM a [RANGE 9 MICROSECONDS] AS x JOIN b [RANGE 9 MICROSECONDS] AS y ON x.k = y.k",
    "SELECT x.k FROM a [RANGE 5 MICROSECONDS] AS x JOIN b [RANGE 5 MICROSECONDS] AS y ON x.k = y.k "
    "WHERE x.v > 2",
    "SELECT x.k FROM a [ROWS 3] AS x JOIN b [ROWS 3] AS y ON x.k < y.k",
    "SELECT k FROM a WHERE v > 3",
    "SELECT k FROM a WHERE v > 5",
    "SELECT k FROM a [ROWS 3] WHERE k > 0",
    "SELECT k FROM a UNION ALL SELECT k FROM b",
    "SELECT k, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS t, AVG(v) AS m, MIN(v) AS l, MAX(s) AS u, "
    "COUNT(DISTINCT s) AS d, SUM(k) AS e FROM a [RANGE 6 MICROSECONDS] GROUP BY k",
    "SELECT k, MIN(v) AS l, MAX(s) AS u, MIN(k) AS q FROM a [ROWS 4] GROUP BY k",
    "SELECT x.k, COUNT(*) AS n FROM a [RANGE 5 MICROSECONDS] AS x JOIN b [RANGE 4 MICROSECONDS] AS y "
    "ON x.k = y.k GROUP BY x.k",
    "SELECT DISTINCT k FROM a [RANGE 4 MICROSECONDS] EXCEPT SELECT k FROM b [ROWS 2]",
    "SELECT x.k, y.s FROM a [RANGE 4 MICROSECONDS] AS x LEFT JOIN b [RANGE 7 MICROSECONDS] AS y ON x.k = y.k",
    "SELECT k FROM a [PARTITION BY k ROWS 2] AS p WHERE EXISTS (SELECT * FROM t WHERE t.k = p.k)",
    "SELECT x.k, label FROM a [RANGE 4 MICROSECONDS] AS x JOIN t ON x.k = t.k EMIT CHANGES",
    "SELECT k, COUNT(*) AS n FROM a [RANGE 6 MICROSECONDS] GROUP BY k HOP BY 3 MICROSECONDS",
    "SELECT k, SUM(v) AS n FROM a [RANGE 6 MICROSECONDS] GROUP BY k HOP BY 2 MICROSECONDS EMIT DELTA",
    "SELECT k, MAX(s) AS n FROM a [RANGE 6 MICROSECONDS] GROUP BY k HOP BY 2 MICROSECONDS EMIT DELTA",
    "SELECT x.k, y.v, z.v AS w FROM a AS x, b AS y, a AS z WHERE x.k = y.k AND y.k = z.k"
    " WINDOW 2 MICROSECONDS",
    "SELECT x.k, COUNT(*) AS n FROM a AS x, b AS y, a AS z WHERE x.k = y.k AND y.k = z.k GROUP BY x.k"
    " WINDOW 3 MICROSECONDS",
    "SELECT x.k, y.v, x.s FROM a AS x JOIN b AS y ON x.k = y.k AND x.s = y.s",
    "SELECT x.k, y.v, x.s FROM a AS x FULL JOIN b AS y ON x.k = y.k AND x.v < y.v",
    "SELECT k, COUNT(*) AS n, SUM(v) AS t, MAX(s) AS u FROM a GROUP BY k",
    "SELECT x.k, COUNT(*) AS n FROM a AS x JOIN b AS y ON x.k = y.k GROUP BY x.k",
]


HOPPING = [
    ("SELECT k, v FROM a [RANGE 5 MICROSECONDS]", "DICO"),
    ("SELECT x.k, y.v FROM a [RANGE 5 MICROSECONDS] AS x JOIN b [ROWS 3] AS y ON x.k = y.k", "CICO"),
    ("SELECT k, s FROM a [PARTITION BY k ROWS 2] EXCEPT SELECT k, s FROM b [RANGE 7 MICROSECONDS]", "CICO"),
    ("SELECT k, MAX(s) AS u, COUNT(*) AS n FROM a [RANGE 8 MICROSECONDS] GROUP BY k", "CICO"),
    ("SELECT COUNT(*) AS n, SUM(v) AS t FROM a [ROWS 4]", "CICO"),
    ("SELECT x.k, label FROM a [RANGE 4 MICROSECONDS] AS x LEFT JOIN t ON x.k = t.k", "CICO"),
    ("SELECT k, SUM(v) AS t, MIN(v) AS l, MAX(k) AS u FROM a [RANGE 8 MICROSECONDS] GROUP BY k", "DICO"),
]
HOPPING = [
    (f"{sql} HOP BY 3 MICROSECONDS{emit}", mode if emit == "" else "CIDO")
    for sql, mode in HOPPING
    for emit in ("", " EMIT DELTA")
]


def rows(first: int, count: int = 12) -> dict[str, list[Any]]:
    numbers = range(first, first + count)
    return {
        "ts": list(numbers),
        "k": [n % 3 for n in numbers],
        "v": [n * 7 % 10 / 1.0 for n in numbers],
        "s": [None if n % 5 == 0 else f"s{n % 4}" for n in numbers],
    }


def make(**options: Any) -> penstock.Engine:
    """An engine with queries of every kind that have seen rows and not been read."""
    engine = penstock.Engine(**options)
    engine.execute(STREAMS)
    engine.push("t", {"k": [0, 1, None], "label": ["zero", "one", "none"]})
    for number, sql in enumerate(QUERIES):
        engine.query(sql, name=f"n{number}")
    for number, (sql, mode) in enumerate(HOPPING):
        engine.query(sql, name=f"h{number}", modes=mode)
    for first in (0, 12, 24):
        for stream in "ab":
            engine.push(stream, rows(first))
    return engine


@pytest.mark.parametrize(
    ("sharing", "expiry"),
    [
        ("auto", "auto"), ("auto", "nta"), ("auto", "time-message"), ("unshared", "nta"),
        ("pull-up", "auto"), ("push-down", "time-message"), ("chain", "nta"), ("chain-cpu", "auto"),
    ],
)  # fmt: skip
def test_everything_goes_on(sharing: str, expiry: str) -> None:
    engine = make(sharing=sharing, expiry=expiry)
    twins = Twins(engine, again(engine))
    twins.compare()
    twins.do(lambda one: one.execute("DROP QUERY n0; ALTER QUERY n1 SET WINDOW 3 MICROSECONDS"))
    twins.do(lambda one: one.query("SELECT k, COUNT(*) AS n FROM b [RANGE 3 MICROSECONDS] GROUP BY k"))
    for first in (36, 48):
        for stream in "ba":
            twins.do(lambda one: one.push(stream, rows(first)))  # noqa: B023
        twins.compare()
    twins.do(lambda one: one.push("a", rows(0)))  # late: both refuse it in the same words
    twins.do(lambda one: one.advance(100))
    twins.compare()
    twins.do(lambda one: one.close())
    twins.compare()
    with pytest.raises(penstock.UsageError, match="closed"):
        again(twins.two).push("a", rows(200))


def test_every_operator_and_aggregate_can_be_written() -> None:
    """A new operator that is not among the queries here, or that a checkpoint cannot hold, is noticed."""
    known: set[type] = set()
    for module in pkgutil.walk_packages(rooms.__path__, f"{rooms.__name__}."):
        found = importlib.import_module(module.name)
        known |= {
            one
            for _, one in inspect.getmembers(found, inspect.isclass)
            if one.__module__ == found.__name__ and hasattr(one, "step") and not has_no_objects(one)
        }
    known |= {
        one
        for _, one in inspect.getmembers(aggregates, inspect.isclass)
        if one.__module__ == aggregates.__name__ and hasattr(one, "run") and not is_protocol(one)
    }
    met: set[type] = set()
    for options in [
        {"expiry": "nta"},
        {"expiry": "time-message", "index": "b+tree"},
        {"sharing": "chain", "index": "hash"},
        {"sharing": "push-down", "index": "t-tree"},
        {"sharing": "unshared"},
    ]:
        engine = make(**options)
        Twins(engine, again(engine)).compare()
        walk = Walk(restorable())
        walk.take(engine)
        met |= {type(one) for one in walk._met}
    assert {one.__name__ for one in known - met} == set()


def is_protocol(one: type) -> bool:
    return bool(getattr(one, "_is_protocol", False))


def has_no_objects(one: type) -> bool:
    """Whether no object is of this very class."""
    return is_protocol(one) or inspect.isabstract(one)


def test_what_is_noted_is_found_again(tmp_path: Path) -> None:
    engine = make()
    assert engine.note == {}
    engine.checkpoint(tmp_path / "state", note={"batch": 7, "names": ["x"], "raw": b"\0"})
    restored = penstock.Engine.restore(tmp_path / "state")
    assert restored.note == {"batch": 7, "names": ["x"], "raw": b"\0"}
    assert again(restored).note == {}, "a note belongs to one checkpoint"
    for note in ({"when": object()}, {"at": {(1, 2): 3}}):
        with pytest.raises(penstock.UsageError, match="Expected a note"):
            engine.checkpoint(tmp_path / "state", note=note)
    assert penstock.Engine.restore(tmp_path / "state").note["batch"] == 7


def test_subscribers_are_not_kept() -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    query = engine.query("SELECT k FROM a", name="q")
    heard: list[int] = []
    query.subscribe(lambda batch: heard.append(batch.num_rows))
    restored = again(engine)
    restored.push("a", rows(0))
    assert heard == []
    restored.queries["q"].subscribe(lambda batch: heard.append(batch.num_rows))
    assert heard == [12], "what was kept is handed over"


def test_a_subscriber_cannot_ask_for_one() -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    engine.query("SELECT k FROM a", name="q").subscribe(lambda batch: engine.checkpoint_bytes() and None)
    with pytest.raises(penstock.SubscriberError, match="between two pushes"):
        engine.push("a", rows(0))
    again(engine)


def test_a_subscriber_cannot_ask_for_one_during_an_alteration() -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    query = engine.query("SELECT k FROM a [RANGE 100 us] EMIT CHANGES", name="q")
    engine.push("a", rows(0))
    query.results()
    query.subscribe(lambda batch: engine.checkpoint_bytes() and None)
    with pytest.raises(penstock.SubscriberError, match="between two pushes"):
        engine.execute("ALTER QUERY q SET WINDOW 2 us")
    again(engine)


def test_a_subscriber_cannot_ask_for_one_while_it_is_given_what_was_kept() -> None:
    """The rows it has in its hands would be kept once more."""
    engine = penstock.Engine()
    engine.execute(STREAMS)
    query = engine.query("SELECT k FROM a", name="q")
    engine.push("a", rows(0))
    with pytest.raises(penstock.UsageError, match="between two pushes"):
        query.subscribe(lambda batch: engine.checkpoint_bytes() and None)
    again(engine)


def test_a_query_that_failed_stays_failed() -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    engine.query("SELECT CAST(s AS BIGINT) AS n FROM a", name="bad")
    engine.query("SELECT k FROM a", name="good")
    with pytest.raises(penstock.PenstockError):
        engine.push("a", rows(0))
    twins = Twins(engine, again(engine))
    twins.compare()
    twins.do(lambda one: one.push("a", rows(20)))
    twins.compare()
    assert "bad" in str(twins.do(lambda one: one.queries["bad"].results()))


def test_what_is_not_ours_is_refused_by_name() -> None:
    class Foreign:
        def run(self, ready: Any, clock: Any, failed: Any) -> None:
            raise AssertionError

    engine = penstock.Engine(scheduler=Foreign())
    with pytest.raises(penstock.UsageError, match=r"found a `.*Foreign` in `AtWork\._scheduler`"):
        engine.checkpoint_bytes()


def test_plans_that_are_catching_up_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose_expiry, "choose_expiry", the_other)
    monkeypatch.setattr(adapt, "reads_expiring_join", lambda plan: True)
    engine = penstock.Engine()
    engine.execute(STREAMS)
    for number in (7, 9):  # a GROUP BY over a window, one over a join
        engine.query(QUERIES[number], name=f"n{number}")
    for stream in "ab":
        engine.push(stream, rows(0))
    engine._adapter.look_at_plans()
    assert engine._runtime.is_replanned("n7")
    twins = Twins(engine, again(engine))
    assert twins.two._runtime.is_replanned("n7")
    twins.compare()
    for first in (12, 24, 36):
        for stream in "ab":
            twins.do(lambda one: one.push(stream, rows(first)))  # noqa: B023
        twins.compare()
    for one in (engine, twins.two):
        assert not any(map(one._runtime.is_replanned, one.queries)), "they have taken over"


@pytest.mark.parametrize("emit", ["COMPLETE", "DELTA"])
@pytest.mark.parametrize("mode", ["auto", "DIDO", "CICO"])
def test_altered_hopping_plans_that_are_catching_up_go_on(mode: str, emit: str) -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    sql = "SELECT k, SUM(v) AS t FROM a [RANGE 4 MICROSECONDS] GROUP BY k HOP BY 2 MICROSECONDS EMIT " + emit
    engine.query(sql, "q", modes=mode)
    engine.query(sql.replace("k, SUM", "k + 1 AS k, SUM"), "other", modes=mode)
    engine.push("a", rows(0))
    engine.execute("ALTER QUERY q SET WINDOW 8 MICROSECONDS")
    twins = Twins(engine, again(engine))
    assert twins.two._runtime.is_replanned("q")
    for first in (12, 24):
        twins.do(lambda one: one.push("a", rows(first)))  # noqa: B023
        twins.compare()
    assert not twins.two._runtime.is_replanned("q")
    Twins(engine, again(twins.two)).compare()


def test_a_query_that_failed_in_the_middle_of_a_hop_can_be_written() -> None:
    """The join has pairs left to give when what is above it fails."""
    engine = penstock.Engine(scheduler=RoundRobin(1))
    engine.execute(STREAMS)
    sql = "SELECT CAST(x.s AS BIGINT) AS n FROM a [RANGE 9 MICROSECONDS] AS x JOIN b [ROWS 9] AS y ON true"
    engine.query(f"{sql} HOP BY 9 MICROSECONDS", "bad", modes="CICO")
    many = {name: values * 400 for name, values in rows(1, 1).items()}
    for stream in "ab":
        engine.push(stream, many)
    with pytest.raises(penstock.StoppedError):
        engine.advance(30)
    Twins(engine, again(engine)).compare()


def test_tables_wait_for_time_to_begin() -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    engine.query("SELECT x.k, label FROM a [RANGE 4 MICROSECONDS] AS x JOIN t ON x.k = t.k EMIT CHANGES", "q")
    engine.push("t", {"k": [0], "label": ["zero"]})
    twins = Twins(engine, again(engine))
    twins.do(lambda one: one.push("t", {"k": [1], "label": ["one"]}))
    twins.do(lambda one: one.push("a", rows(0)))
    twins.compare()
    assert twins.one.queries["q"].count > 0


def test_delays_do_not_count_the_time_between() -> None:
    engine = make()
    data = engine.checkpoint_bytes()
    time.sleep(0.2)
    restored = penstock.Engine.restore_bytes(data)
    assert restored._runtime._clock() - restored._runtime._began < engine._runtime._clock()
    now = restored._runtime._clock()
    assert now < engine._runtime._clock() - 0.1


# -- files ------------------------------------------------------------------------------------------


def resealed(data: bytes) -> bytes:
    """With the checksum that fits."""
    return data[: -CHECKSUM.size] + CHECKSUM.pack(checksum([data[: -CHECKSUM.size]]))


def from_the_future(data: bytes) -> bytes:
    _, _, *lengths = FRONT.unpack(data[: FRONT.size])
    return resealed(FRONT.pack(MAGIC, FORMAT_VERSION + 1, *lengths) + data[FRONT.size :])


def flipped(data: bytes) -> bytes:
    return data[:900] + bytes([data[900] ^ 4]) + data[901:]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (from_the_future, f"Expected a checkpoint of format `{FORMAT_VERSION}` or lower, found"),
        (flipped, "It is damaged"),
        (lambda data: data[:-100], "It was cut short"),
        (lambda data: data[:10], "Expected a whole checkpoint, found its first 10 bytes"),
        (lambda data: data + b"\0", "There is more than was written"),
        (lambda data: b"PAR1" + data, "Expected a checkpoint, found a file that begins with `b'PAR1PENS'`"),
        (lambda data: b"", "Expected a checkpoint, found a file that begins with nothing"),
    ],
)
def test_a_bad_file_gets_one_line(harm: Any, words: str, tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.write_bytes(harm(make().checkpoint_bytes()))
    with pytest.raises(CheckpointError) as raised:
        penstock.Engine.restore(file)
    message = str(raised.value)
    assert words in message
    assert f"`{file}`" in message
    assert "\n" not in message
    assert raised.value.exit_code == 4


def test_any_flipped_bit_is_noticed() -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    data = engine.checkpoint_bytes()
    for at in range(0, len(data), 37):
        with pytest.raises(CheckpointError):
            penstock.Engine.restore_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])


def test_another_program_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make().checkpoint_bytes()
    monkeypatch.setattr(penstock, "__version__", "99.0")
    with pytest.raises(CheckpointError, match=r"Expected a checkpoint of Penstock `99\.0`, found one of `"):
        penstock.Engine.restore_bytes(data)


def repacked(header: Any, length: int | None = None) -> bytes:
    """A checkpoint of this header alone, as bytes or as values, with a checksum that fits."""
    packed = header if isinstance(header, bytes) else msgpack.packb(header)
    whole = FRONT.size + len(packed) + CHECKSUM.size
    front = FRONT.pack(MAGIC, FORMAT_VERSION, whole, len(packed), length or len(packed))
    return resealed(front + packed + bytes(CHECKSUM.size))


HEADER = {
    "version": penstock.__version__, "note": msgpack.packb({}), "root": 0, "records": [["", None]],
    "arrays": [], "lengths": [], "stored": [],
}  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        repacked(HEADER),  # nothing, and no engine
        repacked({**HEADER, "root": 1}), repacked({**HEADER, "root": -1}), repacked({**HEADER, "root": "x"}),
        repacked({**HEADER, "records": {}}), repacked({**HEADER, "more": 1}), repacked([]), repacked(b"\xc1"),
        repacked({**HEADER, "lengths": [1 << 40], "stored": [0]}),
        repacked({**HEADER, "lengths": [4], "stored": [4]}),  # of which there are none
        repacked({**HEADER, "lengths": [4, -4], "stored": [4, -4]}),
        repacked({**HEADER, "note": b"\xdd\xff\xff\xff\xff"}), repacked({**HEADER, "note": msgpack.packb(3)}),
        repacked(b"\xdd\xff\xff\xff\xff" * 100),  # lists that say that they are long
        repacked(b"x" * 300, 1 << 45),  # as if all of it were compressed
        repacked({name: value for name, value in HEADER.items() if name != "arrays"}),
    ],
)  # fmt: skip
def test_a_header_of_others_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError) as raised:
        penstock.Engine.restore_bytes(data)
    assert "\n" not in str(raised.value)


def test_what_goes_wrong_in_a_restored_engine_is_said_of_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values that fit their types and places, and not each other; elsewhere it is a mistake of ours."""
    engine = penstock.Engine()
    engine.execute(STREAMS)
    engine.query("SELECT k, v + 1 AS w FROM a", name="q")
    restored = again(engine)
    monkeypatch.setattr(Select, "step", lambda operator, quantum: [][quantum])
    words = "Expected a checkpoint with what an engine holds, found IndexError"
    with pytest.raises(penstock.StoppedError, match=words) as raised:
        restored.push("a", rows(0))
    assert isinstance(raised.value.__cause__, CheckpointError)
    with pytest.raises(penstock.StoppedError, match="Query `q` was stopped by IndexError"):
        engine.push("a", rows(0))
    monkeypatch.setattr(restored._runtime, "streams", 3)
    with pytest.raises(
        CheckpointError, match="Expected a checkpoint with what an engine holds, found TypeError"
    ):
        restored.push("a", rows(20))


def test_no_file_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        penstock.Engine.restore(tmp_path / "none")
    with pytest.raises(penstock.PenstockError, match="Expected to write a checkpoint, found No such file"):
        make().checkpoint(tmp_path / "nowhere" / "state")
    assert list(tmp_path.iterdir()) == []


FRESH = """
import sys, json, penstock
engine = penstock.Engine.restore(sys.argv[1])
engine._runtime._check()
engine.push("b", json.loads(sys.argv[2]))
engine.push("a", json.loads(sys.argv[2]))
engine.query(sys.argv[3], name="more")
results = {name: repr(query.results().to_pylist()) for name, query in engine.queries.items()}
print(json.dumps([results, engine.explain()]))
"""


@pytest.mark.parametrize("sharing", ["auto", "chain-cpu"])
def test_in_another_process(sharing: str, tmp_path: Path) -> None:
    import json

    engine = make(sharing=sharing)
    engine.checkpoint(tmp_path / "state")
    more = rows(36)
    run = [sys.executable, "-c", FRESH, str(tmp_path / "state"), json.dumps(more), QUERIES[1]]
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}  # texts have other hashes there
    said = subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout
    engine.push("b", more)
    engine.push("a", more)
    engine.query(QUERIES[1], name="more")
    expected = {name: repr(query.results().to_pylist()) for name, query in engine.queries.items()}
    assert json.loads(said) == [expected, engine.explain()]


WRITER = """
import sys, penstock, numpy as np
engine = penstock.Engine()
engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT)")
engine.query("SELECT k FROM a", name="q")
engine.push("a", {"ts": np.arange(400_000), "k": np.random.default_rng(1).integers(0, 1 << 60, 400_000)})
number = 0
while True:
    number += 1
    engine.checkpoint(sys.argv[1], note={"number": number})
    print(number, flush=True)
"""


def test_killed_while_writing_the_last_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "state"
    for wait_s in (0.0, 0.003, 0.011, 0.02):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            told = [writer.stdout.readline() for _ in range(2)]
            time.sleep(wait_s)
            os.kill(writer.pid, signal.SIGKILL)
            told += writer.stdout.readlines()
        last = max(int(line) for line in told if line.strip())
        restored = penstock.Engine.restore(file)
        assert restored.note["number"] in (last, last + 1)
        assert restored.queries["q"].count == 400_000
    restored.checkpoint(file)
    assert list(tmp_path.iterdir()) == [file]


COMMON = "SELECT k + 1 AS k, COUNT(*) AS n FROM a [RANGE 9 MICROSECONDS] WHERE s LIKE 'b%' GROUP BY k + 1"
EQUAL = """
import sys, penstock
from penstock.engine.sharing.sub_plan import SubPlan
engine = penstock.Engine.restore(sys.argv[1])
engine.query(sys.argv[2], name="two")
print(len(engine._runtime.shared.of(SubPlan)))
"""


def test_equal_plans_are_found_in_another_process(tmp_path: Path) -> None:
    engine = penstock.Engine()
    engine.execute(STREAMS)
    engine.query(COMMON, name="one")
    engine.checkpoint(tmp_path / "state")
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    run = [sys.executable, "-c", EQUAL, str(tmp_path / "state"), COMMON]
    said = subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout
    assert int(said) == len(sub_plans_of(engine)) > 0
