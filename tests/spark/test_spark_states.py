"""Where states are, and whose they are: local folders and those of pyarrow.fs, and their owners."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

import penstock
from penstock.connectors.spark import Sink, sink, state_folder
from penstock.connectors.spark.owner import NAME, Claim, Owner, began, decode
from penstock.connectors.spark.request import Request
from penstock.connectors.spark.saved_states import SavedStates
from penstock.connectors.spark.state_folder import LocalFolder, RemoteFolder, StateFolder, open_folder

SQL = "CREATE STREAM s (ts TIMESTAMP, x BIGINT); CREATE QUERY q AS SELECT x FROM s"
SYSTEMS: dict[str, Callable[[Path], Any]] = {
    "a folder": lambda path: path / "new",
    "file:/": lambda path: f"file:{path}/new",
    "file:///": lambda path: f"file://{path}/new",
    "in memory": lambda _: fs._MockFileSystem(),
    "a part of another": lambda path: fs.SubTreeFileSystem(str(path), fs.LocalFileSystem()),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_states_are_kept_anywhere(tmp_path: Path, system: str) -> None:
    """Two of them, whole, and only there; a write that fails leaves what was there."""
    states = SavedStates(SYSTEMS[system](tmp_path))
    engine = penstock.Engine()
    engine.execute(SQL)
    assert states.load(0, "one") is None
    for batch in range(3):
        engine.push("s", {"ts": [batch], "x": [batch]})
        states.save(engine, batch, "one", {"s": batch})
        states.save(engine, batch, "one", {"s": batch})  # given again
    assert states.batches() == [1, 2]
    restored = states.load(2, "one")
    assert restored is not None
    assert restored.queries["q"].results()["x"].to_pylist() == [0, 1]
    assert restored.note == {"batch": 1, "query": "one", "without_time": {"s": 1}}
    assert {path.name for path in tmp_path.iterdir()} <= {"new", "batch-1.penstock", "batch-2.penstock"}


class Torn:
    """Bytes that end in the midst."""

    def __iter__(self) -> Any:
        yield b"half"
        raise OSError("no space left")


@pytest.mark.parametrize("system", ["a folder", "in memory"])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, system: str) -> None:
    folder = open_folder(SYSTEMS[system](tmp_path))
    folder.write("batch-1.penstock", [b"whole"])
    with pytest.raises(OSError, match="no space left"):
        folder.write("batch-1.penstock", Torn())  # type: ignore[arg-type]
    assert folder.read("batch-1.penstock") == b"whole"
    assert folder.read("batch-2.penstock") is None
    assert folder.create("owner.json", b"a") and not folder.create("owner.json", b"b")
    folder.remove("owner.json")
    folder.remove("owner.json")
    assert [name for name in folder.names() if not name.startswith(".")] == ["batch-1.penstock"]


def test_remote_states_are_never_a_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """s3a is Spark's name of what pyarrow.fs calls s3; what it does not know is refused by name."""
    monkeypatch.chdir(tmp_path)
    asked = []

    def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
        asked.append(uri)
        if uri.startswith("hdfs:"):
            raise OSError("Unable to load libhdfs")
        return fs._MockFileSystem(), "bucket/state"

    class Known:
        FileSystem = type("FileSystem", (fs.FileSystem,), {"from_uri": staticmethod(from_uri)})
        FileSelector, FileType = fs.FileSelector, fs.FileType

    monkeypatch.setattr(state_folder, "fs", Known)
    states = SavedStates("s3a://bucket/state")
    assert asked == ["s3://bucket/state"]
    engine = penstock.Engine()
    states.save(engine, 0, None)
    assert states.batches() == [0]

    def refused(state: str, message: str) -> None:
        with pytest.raises(penstock.UsageError) as caught:
            sink(SQL, state=state, path=tmp_path / "out")
        assert message in str(caught.value)

    refused("hdfs://host/state", "found `hdfs://host/state` (Unable to load libhdfs). Mount it, or give")
    refused("dbfs:/state", "found `dbfs:/state`. Databricks mounts it as `/dbfs/...`")
    refused("s3:/state", "found `s3:/state`. A folder of that name is `./s3:/state`")
    refused("file:state", "Expected a path from the root of this machine's files, found `file:state`")
    refused("file://host/state", "found `file://host/state`")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    refused("nosuch://bucket/state", "found `nosuch://bucket/state` (")
    for uri in ("s3a://bucket/state", "dbfs:/state", "hdfs:/state"):
        with pytest.raises(penstock.UsageError, match="Expected a folder that this machine mounts"):
            Request.of({"queries": SQL, "stateLocation": uri}).require("stateLocation")
    assert Request.of({"queries": SQL, "stateLocation": "file:/a/b"}).require("stateLocation") == "/a/b"
    assert list(tmp_path.iterdir()) == []


def nothing_runs(query: str) -> bool:
    return False


def test_who_is_at_work() -> None:
    me = Owner("mine")
    assert me.began is not None and me.began == began(os.getpid())
    parent = Owner("other", pid=os.getppid(), began=began(os.getppid()))
    assert parent.is_at_work(me, nothing_runs)
    assert not replace(parent, query="mine").is_at_work(me, nothing_runs), "of one checkpoint"
    assert not replace(parent, began="the same number, earlier").is_at_work(me, nothing_runs)
    assert not replace(parent, pid=2**22 + 1).is_at_work(me, nothing_runs), "no process has that number"
    assert replace(parent, host="elsewhere", pid=2**22 + 1).is_at_work(me, nothing_runs), "who knows"
    other = Owner("other")
    assert other.is_at_work(me, lambda query: query == "other")
    assert not other.is_at_work(me, nothing_runs)
    assert not Owner(None).is_at_work(me, lambda query: True), "called by hand"
    assert Owner.of_query("other").is_at_work(Owner.of_query("mine"), lambda query: True)
    assert decode(b"{}") is None and decode(b"no") is None and decode(other.encoded()) == other


@pytest.mark.parametrize("system", ["a folder", "in memory"])
def test_a_folder_has_one_owner(tmp_path: Path, system: str) -> None:
    folder = open_folder(SYSTEMS[system](tmp_path))
    first, second = Claim(folder), Claim(folder)
    first.make(Owner("one"), nothing_runs)
    with pytest.raises(penstock.UsageError) as caught:
        second.make(Owner("two"), lambda query: query == "one")
    assert str(caught.value).endswith(
        f"found it in use by Spark query `one` in process {os.getpid()} on `{socket.gethostname()}`: "
        "stop that, or give this a folder of its own; if that has ended, remove `owner.json` there"
    )
    with pytest.raises(penstock.UsageError, match="found it in use by Spark query `one`"):
        second.look(lambda query: query == "one")
    second.look(nothing_runs)
    first.check()
    first.make(Owner(None), lambda query: True)  # ours as it is
    second.make(Owner("two"), nothing_runs)
    with pytest.raises(penstock.UsageError, match="found it taken over by Spark query `two` in process"):
        first.check()
    first.release()
    second.check()
    second.release()
    assert folder.names() == []
    folder.write(NAME, [replace(Owner("three"), host="elsewhere").encoded()])
    first.look(lambda query: True)  # perhaps it is the same query
    with pytest.raises(
        penstock.UsageError, match=r"in use by Spark query `three` in process .* on `elsewhere`"
    ):
        first.make(Owner("one"), nothing_runs)
    folder.remove(NAME)
    first.make(Owner("one"), nothing_runs)


@pytest.mark.parametrize("kind", [LocalFolder, RemoteFolder])
def test_of_two_who_start_at_once_one_goes_on(tmp_path: Path, kind: type) -> None:
    """Where a file can be created exclusively, at once; elsewhere before anything is written."""
    system: StateFolder = LocalFolder(tmp_path) if kind is LocalFolder else open_folder(fs._MockFileSystem())
    one, other = Claim(system), Claim(system)
    create = type(system).create

    def create_late(self: StateFolder, name: str, data: bytes) -> bool:
        """The other one comes between the look and the writing."""
        type(system).create = create  # type: ignore[method-assign]
        other.make(Owner("other"), lambda query: True)
        if kind is RemoteFolder:
            self.write(name, [data])
            return True
        return create(self, name, data)

    type(system).create = create_late  # type: ignore[method-assign]
    try:
        if kind is LocalFolder:
            with pytest.raises(penstock.UsageError, match="found it in use by Spark query `other`"):
                one.make(Owner("one"), lambda query: True)
            other.check()
        else:
            one.make(Owner("one"), lambda query: True)
            with pytest.raises(penstock.UsageError, match="taken over by Spark query `one`"):
                other.check()
    finally:
        type(system).create = create  # type: ignore[method-assign]


def test_a_sink_that_was_displaced_writes_nothing(spark: Any, tmp_path: Path) -> None:
    """By hand and in one process: the later one has the state, the earlier one is refused from then on."""

    def make() -> Sink:
        return sink(SQL, state=tmp_path / "state", path=tmp_path / "out")

    def rows(*seconds: int) -> Any:
        table = pa.table({"ts": pa.array([1_000_000 * one for one in seconds], pa.timestamp("us", "UTC"))})
        return spark.createDataFrame(table.append_column("x", pa.array(seconds)))

    first, second = make(), make()
    first(rows(1), 0)
    second(rows(2), 1)
    for use in (lambda: first(rows(3), 1), first.close):
        with pytest.raises(penstock.UsageError, match="found it taken over by a sink in process"):
            use()
    second(rows(3), 2)
    second.close()
    third = make()
    third(rows(3), 2)
    assert sorted(row["x"] for row in spark.read.parquet(f"{tmp_path}/out/query=q").collect()) == [1, 2, 3]
