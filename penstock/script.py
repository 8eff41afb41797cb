"""Running a script: statements are checked one after the other, then all applied, or none.

Each is bound against what those before it would make, so that a query can read a stream declared above it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.engine.rows.errors import BindError, did_you_mean
from penstock.optimizer.bind.alter_windows import with_window
from penstock.optimizer.bind.bind import bind_query, bind_relation
from penstock.optimizer.plan.plan_query import refuse_alter
from penstock.optimizer.read import statements as written
from penstock.optimizer.read.source import fail
from penstock.optimizer.tree.logical import Query

if TYPE_CHECKING:
    from .api import Engine


def run_script(engine: Engine, statements: Sequence[written.Statement]) -> None:
    """Apply the statements to the engine; if one is wrong, nothing changes."""
    engine._refuse_closed("statements can be run")
    catalog = copy.deepcopy(engine._catalog)
    names = {name.lower(): name for name in engine.queries}
    bound_queries: dict[str, Query] = {}
    actions: list[Callable[[], object]] = []
    created: set[str] = set()

    def later(action: Callable[..., object], *arguments: object) -> None:
        actions.append(lambda: action(*arguments))

    for statement in statements:
        where = statement.position
        match statement:
            case written.CreateStream() | written.CreateTable():
                relation = bind_relation(statement)
                if catalog.find(relation.name) is not None:
                    raise fail(
                        BindError, f"Expected a new name, found `{relation.name}` declared already", where
                    )
                catalog.add(relation)
                later(engine._declare, relation)
            case written.CreateQuery(name=name):
                if name.lower() in names:
                    raise fail(BindError, f"Expected a new name, found a query `{name}` already", where)
                bound = bind_query(statement.select, catalog)
                names[name.lower()] = name
                bound_queries[name.lower()] = bound
                created.add(name.lower())
                later(engine._start, name, bound, engine._plan(bound, False, name), False)
            case written.DropQuery(name=name):
                if name.lower() not in names:
                    hint = did_you_mean(name, names.values())
                    raise fail(BindError, f"Expected a query to drop, found no `{name}`", where, hint)
                del names[name.lower()]
                later(engine._drop, name)
            case written.AlterQuery(name=name):
                if name.lower() not in names:
                    hint = did_you_mean(name, names.values())
                    raise fail(BindError, f"Expected a query to alter, found no `{name}`", where, hint)
                running = None if name.lower() in created else engine._queries[name.lower()]
                if running is not None and running._pipeline.error:
                    error = running._pipeline.error
                    raise fail(BindError, f"Expected a query at work, found `{name}` stopped: {error}", where)
                before = bound_queries.get(name.lower()) or engine._queries[name.lower()]._bound
                counting = running is not None and running._counting
                forced = engine._forced if running is None else running._forced
                bound = with_window(before, statement.window)
                plans = [engine._plan(one, counting, name, None, forced).node for one in (before, bound)]
                if running is not None:
                    plans.append(running._pipeline.plan)
                refuse_alter(before, plans, counting, where)
                bound_queries[name.lower()] = bound
                later(engine._alter, name, bound, counting)
            case _:
                raise fail(
                    BindError, "Expected CREATE QUERY name AS SELECT, found a SELECT without a name", where
                )
    for action in actions:
        action()
