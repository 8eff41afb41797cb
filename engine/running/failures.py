"""A query that fails on the data stops alone: what it has given is given out, its error is kept, the others
go on.

    an operator raises              its query stops; all that read it, if it is in common
    the share of one query fails    that query stops; all that read the part whose share it is
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.members.reader import Reader
from penstock.engine.rows.errors import DataError, PenstockError, StoppedError, of_state
from penstock.engine.sharing.shared_work import queries_of

if TYPE_CHECKING:
    from penstock.engine.sharing.pipeline import Pipeline

    from .runtime import Runtime


class Failures:
    """What has gone wrong, for whoever pushed to be told."""

    def __init__(self, runtime: Runtime, on_failure: Callable[[str], None]) -> None:
        """`on_failure` is told the name of a query that was stopped."""
        self._runtime = runtime
        self._on_failure = on_failure
        self.stopped: list[tuple[str, Exception]] = []
        """Queries and what stopped them."""
        self._first: list[tuple[str, Exception]] = []
        """The same of queries that stopped at their first answer, for who pushes next."""
        self.refused: list[tuple[str, Exception]] = []
        """What subscribers raised, by the query they listen to."""

    def refuse(self, name: str, error: Exception) -> None:
        """A subscriber raised."""
        self.refused.append((name, error))

    def put_off(self, since: int) -> None:
        """What has stopped queries but for the first so many is told to who pushes next: who asked for these
        queries is told by their results."""
        self._first += self.stopped[since:]
        del self.stopped[since:]

    def tell(self) -> None:
        """Somebody pushes."""
        self.stopped += self._first
        self._first.clear()

    def of_operator(self, operator: Operator, error: Exception) -> None:
        """An operator raised: those it works for stop, when what it gave is out."""
        owner = self._runtime.at_work.owners[operator]
        behind = owner.behind(operator)
        for pipeline in owner.queries:
            self._stop(pipeline, error, behind)

    def of_reader(self, reader: Reader, error: Exception) -> None:
        """A share in what is common cannot be known, unless it is nobody's any more."""
        for pipeline in queries_of([reader]):
            if pipeline.error is None:
                self._stop(pipeline, error, [])

    def _stop(self, pipeline: Pipeline, error: Exception, behind: Sequence[Operator]) -> None:
        failing = self._runtime.heirs.failed(pipeline)
        if failing is None or failing.error is not None:
            return
        error = self._said(failing, error)
        failing.fail(error)
        self._runtime.forget_queries()
        self.stopped.append((failing.name, error))
        rest = [*behind]
        if failing.sink not in behind:
            rest += [one for plan in failing.plans for one in plan.own_operators]
        for one in rest:  # each before those behind it
            try:
                while one.step(QUANTUM_ROWS):
                    pass
            except Exception as another:  # it is stopped anyway
                error.add_note(f"also: {another}")
        failing.sink.settle()
        self._runtime.shared.stop(failing)
        self._on_failure(failing.name)

    def _said(self, pipeline: Pipeline, error: Exception) -> Exception:
        """The error as users are told it."""
        if isinstance(error, DataError | pa.ArrowException | OverflowError | MemoryError):
            reason = " ".join(str(error).split())
            if isinstance(error, MemoryError):
                reason = f"Expected memory for what the windows hold, found none left ({reason})"
            return StoppedError(f"{reason}, in query `{pipeline.name}`", queries=[pipeline.name])
        if self._runtime.is_restored and not isinstance(error, PenstockError):
            cause = of_state(error)
            said = StoppedError(f"{cause}, in query `{pipeline.name}`", queries=[pipeline.name])
            said.__cause__ = cause
            return said
        return error
