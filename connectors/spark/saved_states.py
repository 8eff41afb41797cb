"""The engine's state after each of the last two batches, one file each: `batch-<id>.penstock`.

A file is written whole or not at all, and its name is the batch: state and batch id cannot disagree. Two
are kept, because Spark gives batch N again if it fell over before it noted that N is done: then N starts
from N-1 anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import penstock
from penstock.engine.errors import UsageError

KEPT = 2


class SavedStates:
    """A folder of states, of one streaming query."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def save(self, engine: penstock.Engine, batch_id: int, query_id: str | None) -> None:
        """The state after a batch; those that no replay can ask for any more go."""
        self.folder.mkdir(parents=True, exist_ok=True)
        engine.checkpoint(self._file(batch_id), note={"batch": batch_id, "query": query_id})
        for saved in self.batches():
            if saved <= batch_id - KEPT or saved > batch_id:
                self._file(saved).unlink()

    def load(self, batch_id: int, query_id: str | None) -> penstock.Engine | None:
        """The state before a batch; None if it is the first one, of a query that has saved none."""
        batches = self.batches()
        if batch_id == 0:
            if batches:
                self._check_owner(penstock.Engine.restore(self._file(batches[-1])), query_id)
            return None
        if batch_id - 1 not in batches:
            found = ", ".join(map(str, batches)) or "none"
            raise UsageError(
                f"Expected the state after batch {batch_id - 1} in `{self.folder}`, found {found}. State and "
                "checkpointLocation belong together: start anew with both, or go on with both"
            )
        engine = penstock.Engine.restore(self._file(batch_id - 1))
        self._check_owner(engine, query_id)
        return engine

    def batches(self) -> list[int]:
        """The batches after which a state is there, oldest first."""
        if not self.folder.is_dir():
            return []
        found = (re.fullmatch(r"batch-(\d+)\.penstock", path.name) for path in self.folder.iterdir())
        return sorted(int(one[1]) for one in found if one)

    def _check_owner(self, engine: penstock.Engine, query_id: str | None) -> None:
        owner = engine.note.get("query")
        if owner != query_id and None not in (owner, query_id):
            raise UsageError(
                f"Expected the state of Spark query `{query_id}` in `{self.folder}`, found that of "
                f"`{owner}`: each checkpointLocation has its own state folder; to start anew, remove both"
            )

    def _file(self, batch_id: int) -> Path:
        return self.folder / f"batch-{batch_id}.penstock"
