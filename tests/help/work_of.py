"""What the queries of an engine have in common, by kind."""

from __future__ import annotations

from penstock.api import Engine
from penstock.engine.panes.pane_aggregate import PaneAggregate
from penstock.engine.running.runtime import Runtime
from penstock.engine.selects.shared_select import SharedSelect
from penstock.engine.sharing.pipeline import PlanAtWork
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.engine.sharing.shared_panes import SharedPanes
from penstock.engine.sharing.shared_selects import SharedSelects
from penstock.engine.sharing.shared_windows import SharedWindows
from penstock.engine.sharing.sub_plan import SubPlan
from penstock.engine.windows.window_store import WindowStore


def joins_of(engine: Engine) -> list[SharedJoin]:
    return engine._runtime.shared.of(SharedJoin)


def stores_of(engine: Engine) -> list[WindowStore]:
    return [work.operator for work in engine._runtime.shared.of(SharedWindows)]


def panes_of(engine: Engine) -> list[PaneAggregate]:
    return [work.operator for work in engine._runtime.shared.of(SharedPanes)]


def selects_of(engine: Engine) -> list[SharedSelect]:
    """Those that run several, or are begun to."""
    found = [work.shared for work in engine._runtime.shared.of(SharedSelects)]
    return [one for one in found if one is not None]


def sub_plans_of(engine: Engine) -> list[SubPlan]:
    return engine._runtime.shared.of(SubPlan)


def plans_of(runtime: Runtime) -> list[PlanAtWork]:
    """Sub-plans and queries."""
    return [*runtime.shared.of(SubPlan), *runtime.pipelines.values()]
