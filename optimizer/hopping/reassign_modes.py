"""Other modes for a hopping query at work, if what its operators have shown says so.

Looked at now and then, between two pushes: first when its windows have been full for LOOK_HOPS hops, then
after twice as many each time nothing was to be gained, up to MOST_HOPS. What runs stays unless other modes
are clearly cheaper (BETTER) by the same measurements: estimates that are a little off change nothing. Every
change doubles the hops until the first look after it, so that modes do not go to and fro, whatever the
streams do, or one form shows that the other does not. The shape of the plan stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.engine.intake.ingest import Ingest
from penstock.engine.rows.hops import Hops
from penstock.engine.sharing.facts import QueryFacts
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.plan.modes import Form, Mode, operators_of
from penstock.optimizer.tree.logical import Query, StreamScan

from .assign_modes import Assigned, Pricer, assign_modes
from .hopping_cost import HoppingCosts
from .measure_hopping import Given, MeasuredEstimates, measured_conditions, measured_nodes, rows_given
from .optimize_hopping import HoppingPlan, operator_costs

LOOK_HOPS = 8
MOST_HOPS = 1_024
BETTER = 0.75  # of what the present modes cost
LEAST_RATE = 1e-6


class AtWork(Protocol):
    """The query that is looked at."""

    def facts(self) -> QueryFacts: ...

    def first_hop(self) -> int | None: ...


@dataclass
class Watch:
    """What one query had shown when it was last looked at."""

    since: int | None = None
    """The boundary of that; None: its windows were not full yet."""
    given: dict[str, Given] = field(default_factory=dict)
    rows_in: dict[str, int] = field(default_factory=dict)
    every: int = LOOK_HOPS

    def look(
        self, plan: HoppingPlan, pipeline: AtWork, streams: Mapping[str, Ingest], weights: Weights
    ) -> HoppingPlan | None:
        """The plan with other modes; None: the present ones are good, or it is not time to look."""
        hops, last = last_hop(plan.query, pipeline, streams)
        if last is None:
            return None
        if self.since is None:
            self.begin(plan, pipeline, streams, last)
            return None
        if last < self.since + max(self.every, looks_after(plan.changes)) * hops.size:
            return None
        pricer = Pricer(self.estimates(plan, pipeline, streams, last), HoppingCosts(weights), plan.panes)
        self.begin(plan, pipeline, streams, last)
        root, emitted = plan.query.root, emitted_by(plan.query)
        now = assign_modes(root, pricer, emitted, plan.modes)
        best = assign_modes(root, pricer, emitted)
        if best.modes == now.modes or best.cost > BETTER * now.cost:
            self.every = min(2 * max(self.every, looks_after(plan.changes)), MOST_HOPS)
            return None
        return with_modes(plan, best, now, pricer)

    def shown(
        self, plan: HoppingPlan, pipeline: AtWork, streams: Mapping[str, Ingest], weights: Weights
    ) -> dict[str, Assigned]:
        """The operators of the plan with what they have shown since the last look, by name."""
        hops, last = last_hop(plan.query, pipeline, streams)
        if last is None or self.since is None or last < self.since + hops.size:
            return {}
        estimates = self.estimates(plan, pipeline, streams, last)
        pricer = Pricer(estimates, HoppingCosts(weights), plan.panes)
        now = assign_modes(plan.query.root, pricer, emitted_by(plan.query), plan.modes)
        known = rows_given(pipeline.facts().shown, modes_of(plan))
        named = zip(plan.operators, now.operators(), strict=True)
        return {one.name: shown for one, shown in named if one.name in known}

    def begin(self, plan: HoppingPlan, pipeline: AtWork, streams: Mapping[str, Ingest], last: int) -> None:
        """Measure from this boundary on."""
        self.since, self.given = last, rows_given(pipeline.facts().shown, modes_of(plan))
        self.rows_in = {name: one.rows_in for name, one in streams.items()}

    def estimates(
        self, plan: HoppingPlan, pipeline: AtWork, streams: Mapping[str, Ingest], last: int
    ) -> MeasuredEstimates:
        """What was measured since then."""
        query, modes = plan.query, modes_of(plan)
        assert query.hop is not None and self.since is not None, "looked at before"
        hops = (last - self.since) // query.hop.size_us
        rates = Rates()
        for name, one in streams.items():
            came = one.rows_in - self.rows_in.get(name, 0)
            rates.set(name, max(LEAST_RATE, came * 1e6 / (last - self.since)))
        now = rows_given(pipeline.facts().shown, modes)
        given = {name: one.per_hop(self.given.get(name), hops) for name, one in now.items()}
        kept = {name: one.kept for name, one in now.items() if one.kept is not None}
        nodes = measured_nodes(query.root, given, kept, modes)
        met = {name: one.met(self.given.get(name)) for name, one in now.items()}
        conditions = measured_conditions(query.root, {name: one for name, one in met.items() if one})
        return MeasuredEstimates(rates, query.hop.size_us, measured=nodes, met=conditions)


def looks_after(changes: int) -> int:
    """Hops until the first look at modes that have been changed so many times."""
    return min(LOOK_HOPS << min(changes, 16), MOST_HOPS)


def modes_of(plan: HoppingPlan) -> dict[str, Mode]:
    """By the names of operators."""
    return {one.name: one.mode for one in plan.operators}


def emitted_by(query: Query) -> Form:
    return "complete" if query.emit == "complete" else "delta"


def last_hop(query: Query, pipeline: AtWork, streams: Mapping[str, Ingest]) -> tuple[Hops, int | None]:
    """The last boundary that is over; None as long as windows are not full, or if they never are."""
    assert query.hop is not None, "a hopping query"
    hops = Hops(query.hop.size_us, query.hop.origin_us)
    scans = [one.node for one in operators_of(query.root) if isinstance(one.node, StreamScan)]
    first = pipeline.first_hop()
    if first is None or any(scan.window.size is None or scan.window.kind != "range" for scan in scans):
        return hops, None
    come = min(streams[scan.stream].output.punctuation for scan in scans)
    full = first + max(scan.window.size or 0 for scan in scans)
    last = hops.last(come - 1)
    return hops, last if last >= full else None


def with_modes(plan: HoppingPlan, best: Assigned, now: Assigned, pricer: Pricer) -> HoppingPlan:
    """The plan in other modes, and what the former cost by the same measurements."""
    return replace(
        plan,
        query=replace(plan.query, root=best.node),
        chosen=best,
        modes=best.modes,
        others=(("modes before", now.cost),),
        operators=operator_costs(best, pricer),
        orders=(),
        changes=plan.changes + 1,
    )
