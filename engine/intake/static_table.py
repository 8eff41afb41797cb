"""A static table: loaded before the first row of any stream, the same for ever after.

Its rows stand before all time (BEGINNING) and never leave. It is sealed when time begins; only then do the
queries that read it get its rows, all at once, and the promise that nothing follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import UsageError
from penstock.engine.rows.types import ARROW_TYPES, SqlType

from .declared import Declared
from .time_units import TimeUnit

BATCH_ROWS = 32_768
TABLE_TIME = BEGINNING + 1  # how far time comes on a table: no stream has rows as old


class StaticTable:
    """Rows of a table, and whoever reads them."""

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        types: Sequence[SqlType],
        units: Sequence[TimeUnit | None] = (),
    ) -> None:
        self.name = name
        self.output = Outlet()
        self._declared = Declared(name, columns, types, units)
        schema = pa.schema([(column, ARROW_TYPES[t]) for column, t in zip(columns, types, strict=True)])
        self.rows: pa.Table = schema.empty_table()
        self.is_sealed = False

    def load(self, table: pa.Table) -> None:
        """Add rows; raises, and changes nothing, if they are not what was declared or if it is too late."""
        if self.is_sealed:
            raise UsageError(
                f"Expected rows of the table `{self.name}` before those of any stream, found time begun"
            )
        self.rows = pa.concat_tables([self.rows, self._declared.take(table).combine_chunks()])
        self._declared.accept()

    def seal(self) -> None:
        """Time begins: hand out the rows."""
        if not self.is_sealed:
            self.is_sealed = True
            for queue in self.output.queues:
                self._give(queue)
            self.output.promise(TABLE_TIME)
            self.output.close()

    def fill(self, queue: Queue) -> None:
        """Give all rows to one reader, if they are complete."""
        if self.is_sealed:
            self._give(queue)
            queue.promise(self.output.punctuation)
            queue.close()

    def _give(self, queue: Queue) -> None:
        for part in self.rows.to_batches(max_chunksize=BATCH_ROWS):
            queue.put(Batch(np.full(part.num_rows, BEGINNING, np.int64), part.columns))
