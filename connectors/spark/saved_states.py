"""The engine's state after each of the last two batches, one file each: `batch-<id>.penstock`.

A file is written whole or not at all, and its name is the batch: state and batch id cannot disagree. Two
are kept, because Spark gives batch N again if it fell over before it noted that N is done: then N starts
from N-1 anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.engine.rows.errors import UsageError

from .owner import Claim
from .state_folder import LocalFolder, open_folder

if TYPE_CHECKING:
    from pyarrow import fs

KEPT = 2


class SavedStates:
    """A folder of states, of one streaming query."""

    def __init__(self, folder: str | Path | fs.FileSystem) -> None:
        self.folder = open_folder(folder)
        self.claim = Claim(self.folder)

    def save(
        self,
        engine: penstock.Engine,
        batch_id: int,
        query_id: str | None,
        untimed: Mapping[str, int] | None = None,
    ) -> None:
        """The state after a batch; those that no replay can ask for any more go.

        untimed: by stream, rows that were left out so far as they had no time.
        """
        note = {"batch": batch_id, "query": query_id, "without_time": dict(untimed or {})}
        if isinstance(self.folder, LocalFolder):  # without a copy of it all
            engine.checkpoint(self.folder.place(name_of(batch_id)), note=note)
        else:
            self.folder.write(name_of(batch_id), [engine.checkpoint_bytes(note=note)])
        for saved in self.batches():
            if saved <= batch_id - KEPT or saved > batch_id:
                self.folder.remove(name_of(saved))

    def load(self, batch_id: int, query_id: str | None) -> penstock.Engine | None:
        """The state before a batch; None if it is the first one, of a query that has saved none."""
        batches = self.batches()
        if batch_id == 0:
            if batches:
                self._check_owner(self._restore(batches[-1]), query_id)
            return None
        if batch_id - 1 not in batches:
            found = ", ".join(map(str, batches)) or "none"
            raise UsageError(
                f"Expected the state after batch {batch_id - 1} in `{self.folder}`, found {found}. State and "
                "checkpointLocation belong together: start anew with both, or go on with both"
            )
        engine = self._restore(batch_id - 1)
        self._check_owner(engine, query_id)
        return engine

    def batches(self) -> list[int]:
        """The batches after which a state is there, oldest first."""
        found = (re.fullmatch(r"batch-(\d+)\.penstock", name) for name in self.folder.names())
        return sorted(int(one[1]) for one in found if one)

    def _restore(self, batch_id: int) -> penstock.Engine:
        data = self.folder.read(name_of(batch_id))
        assert data is not None, "it was there"
        return penstock.Engine.restore_bytes(data, source=f"{self.folder}/{name_of(batch_id)}")

    def _check_owner(self, engine: penstock.Engine, query_id: str | None) -> None:
        owner = engine.note.get("query")
        if owner != query_id and None not in (owner, query_id):
            raise UsageError(
                f"Expected the state of Spark query `{query_id}` in `{self.folder}`, found that of "
                f"`{owner}`: each checkpointLocation has its own state folder; to start anew, remove both"
            )


def name_of(batch_id: int) -> str:
    return f"batch-{batch_id}.penstock"
