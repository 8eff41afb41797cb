"""What must leave an engine as it is: questions, what is refused, and subscribers that raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

import penstock
from penstock.engine.rows.errors import AheadError

from .script import SCHEMA


class Mischief(Exception):
    """A subscriber raises."""


@contextmanager
def must_raise(kind: type[Exception]) -> Iterator[list[Exception]]:
    """Fails as everything else does; the list will have the error."""
    caught: list[Exception] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    if not caught:
        raise AssertionError(f"expected {kind.__name__}, and nothing was refused")


def ask_everything(engine: penstock.Engine) -> None:
    engine.explain()
    engine.explain(analyze=True)
    engine.explain(json=True)
    engine.stats()
    engine.dropped()
    for query in engine.queries.values():
        assert query.schema.names[0] == "_ts", "the first column is the time"


def try_wrong(engine: penstock.Engine, kind: str, stream: str) -> None:
    """It is refused, and nothing was done."""
    before = engine.stats()["streams"], sorted(engine.queries)
    later = (engine.latest(stream) or 0) + 1
    rows = {"ts": [later, later], "id": [-1, -2], "k": [1, 1], "v": [0.5, 0.5]}
    query = f"SELECT k, v FROM {stream} [ROWS 2] EMIT CHANGES"
    name = next(iter(engine.queries), None)
    ways: dict[str, Callable[[], object]] = {
        "null": lambda: engine.push(stream, pa.table({**rows, "ts": [later, None]}, schema=SCHEMA)),
        "type": lambda: engine.push(stream, {**rows, "k": [1, 2.5]}),
        "column": lambda: engine.push(stream, {"ts": rows["ts"]}),
        "script": lambda: engine.execute(f"CREATE QUERY wrong AS {query}; DROP QUERY nobody"),
        "name": lambda: engine.query(query, name or "two words; and more"),
        "alter": lambda: engine.execute(
            f"CREATE QUERY wrong AS {query}; ALTER QUERY nobody SET WINDOW 2 ROWS"
        ),
        "binds": lambda: engine.query(f"SELECT nothing FROM {stream}", "wrong"),
        "late": lambda: engine.push(stream, {**rows, "ts": [later, 1 << 62]}),
    }
    if kind == "name" and name is None:
        return
    with must_raise(penstock.PenstockError) as caught:
        ways[kind]()
    if not isinstance(caught[0], AheadError):
        assert (engine.stats()["streams"], sorted(engine.queries)) == before, (
            "refused, and yet something was done"
        )
