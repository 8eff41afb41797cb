"""The spool: blocks come back once and in order, or an error says what is wrong; files go when they may."""

from __future__ import annotations

import errno
import gc
import os
import random
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import FileError, PenstockWarning, UsageError
from penstock.engine.restoring.in_order import Disorder
from penstock.engine.spool import spool as spool_module
from penstock.engine.spool.block import Block
from penstock.engine.spool.block_file import FRONT, MAGIC, checksum, read
from penstock.engine.spool.spool import Spool
from penstock.engine.spool.spool_folder import SpoolFolder


def rows(first: int, count: int = 10) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.record_batch({"n": numbers, "text": [f"row {one}" if one % 3 else None for one in numbers]})


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.rows"))


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_first_in_first_out(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", dice.choice((1, 2_000, 1 << 20)))
    folder = SpoolFolder(os.fspath(tmp_path), None)
    spools = [(Spool(folder), deque[pa.RecordBatch]()) for _ in range(2)]
    for at in range(30):
        spool, model = dice.choice(spools)
        if dice.random() < 0.6:
            batch = rows(at, dice.randint(1, 20))
            assert spool.append(batch, at, at)
            model.append(batch)
        elif model:
            assert spool.take().equals(model.popleft())
        spool._check()
        assert spool.rows == sum(one.num_rows for one in model) and len(spool) == len(model)
        assert (spool.first is None) == (not model)
    for spool, model in spools:
        spool.clear()
        assert spool.rows == 0 and model is not None
    assert not files_in(tmp_path) and folder.nbytes == 0


def test_a_block_that_was_changed_or_cut_off_is_an_error(tmp_path: Path) -> None:
    for at, found in ((30, "the checksum"), (2, "other bytes"), (None, "100 bytes")):
        spool = Spool(SpoolFolder(os.fspath(tmp_path), None))
        spool.append(rows(0), 0, 9)
        (path,) = [path for path in files_in(tmp_path) if spool.first and os.fspath(path) == spool.first.path]
        data = bytearray(path.read_bytes())
        if at is None:
            data = data[:100]
        else:
            data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(FileError, match=f"Expected a block of .* bytes at 0 of a spool, found {found}"):
            spool.take()


def test_a_limit_is_kept_and_a_full_disk_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SpoolFolder(os.fspath(tmp_path), 5_000)
    spool = Spool(folder)
    taken = [spool.append(rows(at), at, at) for at in range(20)]
    assert taken[0] and not taken[-1] and folder.nbytes <= 5_000
    assert folder.refused == taken.count(False) and "spool_limit" in str(folder.fault)
    for _ in range(taken.count(True)):
        spool.take()
    assert spool.append(rows(0), 0, 0), "there is room again"

    def full(*_: object, **__: object) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = SpoolFolder(os.fspath(tmp_path), None)
    spool = Spool(folder)
    assert spool.append(rows(0), 0, 0)
    monkeypatch.setattr("penstock.engine.spool.part_files.open", full, raising=False)
    with pytest.warns(PenstockWarning, match="Expected to write rows to the spool in .*, found no room left"):
        assert not spool.append(rows(1), 0, 0)
    assert not spool.append(rows(1), 0, 0)
    assert folder.refused == 2
    monkeypatch.undo()
    assert spool.take().equals(rows(0))


def test_half_a_block_that_did_not_fit_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SpoolFolder(os.fspath(tmp_path), None)
    spool = Spool(folder)
    spool.append(rows(0), 0, 0)
    real = open

    class Full:
        """A file that takes ten bytes more."""

        def __init__(self, path: str, mode: str) -> None:
            self.file = real(path, mode)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, data: Any) -> None:
            self.file.write(bytes(memoryview(data).cast("B")[:10]))
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("penstock.engine.spool.part_files.open", Full, raising=False)
    with pytest.warns(PenstockWarning, match="no room left"):
        assert not spool.append(rows(1), 0, 0)
    monkeypatch.undo()
    assert spool.append(rows(2), 0, 0)
    assert spool.take().equals(rows(0)) and spool.take().equals(rows(2))


def test_files_go_with_the_engine_or_when_no_checkpoint_names_them(tmp_path: Path) -> None:
    folder = SpoolFolder(os.fspath(tmp_path), None)
    spool = Spool(folder)
    spool.append(rows(0), 0, 0)
    folder.name_all()
    spool.take()
    assert len(files_in(tmp_path)) == 1, "the checkpoint has it"
    folder.name_all()
    assert len(files_in(tmp_path)) == 1, "the last may be lost"
    folder.name_all()
    assert not files_in(tmp_path)
    spool.append(rows(0), 0, 0)
    folder.name_all()
    spool.take()
    folder.name_all()
    folder.forget_last()
    folder.name_all()
    assert len(files_in(tmp_path)) == 1, "the one before was never written"
    del spool, folder
    gc.collect()
    assert len(files_in(tmp_path)) == 1, "a checkpoint may still be restored"

    other = SpoolFolder(os.fspath(tmp_path), None)
    spool = Spool(other)
    spool.append(rows(0), 0, 0)
    assert len(files_in(tmp_path)) == 2
    del spool, other
    gc.collect()
    assert len(files_in(tmp_path)) == 1


def test_what_a_killed_engine_has_left_goes_when_the_next_begins(tmp_path: Path) -> None:
    left = tmp_path / "penstock-left"
    left.mkdir()
    (left / "lock").touch()
    (left / "1.rows").write_bytes(b"rows")
    other = tmp_path / "others"
    other.mkdir()
    alive = SpoolFolder(os.fspath(tmp_path), None)
    spool = Spool(alive)
    spool.append(rows(0), 0, 0)
    assert not left.exists() and other.exists()
    SpoolFolder(os.fspath(tmp_path), None)
    assert len(files_in(tmp_path)) == 1, "whoever is at work keeps what it has"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Expected a folder to spool to, found Not a directory"):
        SpoolFolder(os.fspath(tmp_path / "file" / "folder"), None)


def test_a_block_of_other_rows_is_an_error_also_with_its_checksum(tmp_path: Path) -> None:
    schema = rows(0).schema
    squeezed = pa.ipc.IpcWriteOptions(compression="lz4")
    for how, found in (
        (None, "another number of rows"),
        (squeezed, "expected Arrow data as it is"),
        ("text", ""),
    ):
        out = pa.BufferOutputStream()
        if how == "text":
            out.write(b"no rows of any kind")
        else:
            with pa.ipc.new_stream(out, schema, options=how) as stream:
                stream.write_batch(rows(0, 11))
        data = out.getvalue()
        path = tmp_path / "1.rows"
        path.write_bytes(FRONT.pack(MAGIC, data.size, checksum(data)) + data.to_pybytes())
        with pytest.raises(FileError, match=f"of a spool, found .*{found}"):
            read(Block(os.fspath(path), 0, FRONT.size + data.size, 10, 0, 9))


def test_no_room_is_made_for_what_is_not_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "1.rows"
    path.write_bytes(b"rows")
    for at, there in ((0, 4), (2, 2), (1 << 40, 0)):
        with pytest.raises(FileError, match=f"at {at:,} of a spool, found {there} bytes"):
            read(Block(os.fspath(path), at, 1 << 61, 10, 0, 9))


def test_a_checkpoint_names_files_of_its_folder_alone(tmp_path: Path) -> None:
    """Whoever wrote the checkpoint reads no file elsewhere by it, and removes none."""
    home = tmp_path / "spool"
    folder = SpoolFolder(os.fspath(home), None)
    spool = Spool(folder)
    spool.append(rows(0), 0, 9)
    folder.name_all()
    block = spool.first
    assert block is not None and folder._part is not None
    other = tmp_path / "penstock-other"
    other.mkdir()
    file = os.fspath(other / "1.rows")
    Path(file).write_bytes(Path(block.path).read_bytes())

    def restored(**changed: Any) -> SpoolFolder:
        again = SpoolFolder.__new__(SpoolFolder)
        again.__dict__.update(folder.__getstate__() | changed)
        return again

    restored()._check_restored()
    for changed in (
        {"_files": {file: block.size}},
        {"_part": os.fspath(other)},
        {"_part": f"{folder._part}/../../penstock-other"},
        {"folder": "spool"},
    ):
        with pytest.raises(Disorder, match="parts of a spool's folder"):
            restored(**changed)._check_restored()
    for moved in (replace(block, path=file), replace(block, at=1), replace(block, size=block.size + 1)):
        again = Spool.__new__(Spool)
        again.__dict__.update(spool.__getstate__() | {"_blocks": deque([moved]), "folder": restored()})
        with pytest.raises(Disorder, match="blocks in files of the folder"):
            again._check_restored()


def test_a_part_that_no_engine_made_is_not_taken_over(tmp_path: Path) -> None:
    own = tmp_path / "penstock-of-mine"
    own.mkdir()
    (own / "mine.rows").write_bytes(b"mine")
    folder = SpoolFolder(os.fspath(tmp_path), None)
    again = SpoolFolder.__new__(SpoolFolder)
    again.__dict__.update(folder.__getstate__() | {"_part": os.fspath(own)})
    again._check_restored()
    again.take_over("bytes given")
    spool = Spool(again)
    assert spool.append(rows(0), 0, 9) and spool.take().equals(rows(0))
    del again, spool
    gc.collect()
    assert [one.name for one in own.iterdir()] == ["mine.rows"]
