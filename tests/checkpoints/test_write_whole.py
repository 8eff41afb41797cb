"""Files that are put in their place whole: their rights, and what those leave behind who are killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.checkpoints.write_whole import open_part, write_whole


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_rights_are_those_of_new_files(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "state", [b"one"])
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == mode


def test_what_a_killed_writer_left_goes_with_the_next(tmp_path: Path) -> None:
    """Not what another one is writing, nor what belongs to another file."""
    target = tmp_path / "state[1]"
    for name in (".state[1].1234.part", ".state[1].k2_x.part", ".state1.1234.part"):
        (tmp_path / name).write_bytes(b"half")
    with open_part(target) as other:
        other.write(b"more")
        write_whole(target, [b"one", memoryview(b" two")])
        found = {path.name for path in tmp_path.iterdir()}
        assert found == {"state[1]", ".state1.1234.part", Path(other.name).name}
    assert target.read_bytes() == b"one two"
    write_whole(target, [b"three"])
    assert {path.name for path in tmp_path.iterdir()} == {"state[1]", ".state1.1234.part"}


def test_who_fails_leaves_all_as_it_was(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    target = tmp_path / "state"
    write_whole(target, [b"one"])
    with pytest.raises(ZeroDivisionError):
        write_whole(target, parts())
    assert target.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [target]
