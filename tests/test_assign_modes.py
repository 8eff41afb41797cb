"""Mode assignment against every assignment there is, for drawn plans, machines and rates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hopping_help import bind, keys, price, rates, weights
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from query_trees import Trees

import penstock
from penstock.optimizer.assign_modes import Pricer, assign_modes, fixed_modes
from penstock.optimizer.logical import Filter, Node, Project, TableScan, inputs_of
from penstock.optimizer.modes import Form, Mode, fill_modes, operators_of, reads, writes
from penstock.optimizer.optimize_hopping import assign_forced
from penstock.optimizer.separate_joins import separate_joins

Every = list[tuple[Form, float, tuple[Mode, ...]]]
FORMS: list[Form] = ["delta", "complete"]


def every_assignment(node: Node, pricer: Pricer) -> Every:
    """What a tree writes and costs in each assignment of modes that fits together."""
    below: Every = [("delta", 0.0, ()), ("complete", 0.0, ())]
    parts = [every_assignment(part, pricer) for part in inputs_of(node)]
    if parts:
        below = [
            (form, sum(one[1] for one in chosen), tuple(m for one in chosen for m in one[2]))
            for form in FORMS
            for chosen in product([[one for one in part if one[0] == form] for part in parts])
        ]
    flow = pricer.flow(node)
    match node:
        case TableScan():
            costs = pricer.costs.table(flow.rows)
            return [(form, costs[form], ()) for form in FORMS]
        case Filter() | Project():
            given_ = pricer.flow(node.input)
            return [(f, cost + pricer.costs.select(given_, f), modes) for f, cost, modes in below]
    flows = [pricer.flow(part) for part in inputs_of(node)]
    return [
        (writes(mode), own + cost, (mode, *modes))
        for mode, own in pricer.operator(node, flows, flow).items()
        for form, cost, modes in below
        if form == reads(mode)
    ]


def product(parts: list[Every]) -> list[list[tuple[Form, float, tuple[Mode, ...]]]]:
    chosen: list[list[tuple[Form, float, tuple[Mode, ...]]]] = [[]]
    for part in parts:
        chosen = [[*some, one] for some in chosen for one in part]
    return chosen


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_assignment_is_the_cheapest_of_all(data: st.DataObject) -> None:
    draw = data.draw
    trees = Trees(draw, "abc", windows=("range", "unbounded"))
    text = trees.tree(draw(st.integers(0, 4))).penstock
    assume(trees.references)
    query = bind(text, f"HOP BY {draw(st.integers(1, 15))} us")
    root = separate_joins(query.root)
    assume(len(operators_of(root)) <= 6)
    pricer = price(query, draw(weights()), rates=draw(rates()), keys=draw(keys()))
    everything = every_assignment(root, pricer)
    for form in FORMS:
        found = assign_modes(root, pricer, form)
        cheapest = min(cost for written, cost, _ in everything if written == form)
        assert found.cost == pytest.approx(cheapest, rel=1e-9)
        same = [cost for written, cost, modes in everything if modes == tuple(found.modes.values())]
        assert found.cost == pytest.approx(min(same), rel=1e-9)
        assert fill_modes(root, found.modes, form) == found.modes  # they fit together


@pytest.mark.parametrize("joins", [1, 4, 16])
def test_every_operator_is_looked_at_once(joins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assigning modes is linear in the number of operators, whatever the number of assignments."""
    asked, real = Counter[int](), Pricer.operator

    def operator(self: Pricer, node: Node, *flows: Any) -> Any:
        asked[id(node)] += 1
        return real(self, node, *flows)

    query = bind("SELECT DISTINCT a.k FROM a " + " ".join(f"JOIN b AS b{i} USING (k)" for i in range(joins)))
    root = separate_joins(query.root)
    monkeypatch.setattr(Pricer, "operator", operator)
    assign_modes(root, price(query), "complete")
    assert len(asked) == len(operators_of(root)) == 2 * joins + 2 and set(asked.values()) == {1}


def test_what_is_forced_stays() -> None:
    query = bind("SELECT a.k, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k")
    root, pricer = separate_joins(query.root), price(query)
    everything = every_assignment(root, pricer)
    for form in FORMS:
        for mode in ("DIDO", "DICO", "CICO", "CIDO"):
            found = assign_forced(root, pricer, form, {"join 1": mode})
            assert found.modes[1] == mode
            fitting = [cost for written, cost, modes in everything if written == form and modes[1] == mode]
            assert found.cost == pytest.approx(min(fitting))


def test_what_does_not_fit_is_refused() -> None:
    query = bind("SELECT a.k FROM a JOIN b ON a.k = b.k")
    with pytest.raises(penstock.UsageError, match="Expected `scan 1` to write what `join 1` reads"):
        assign_forced(query.root, price(query), "delta", {"join 1": "CICO", "scan 1": "DIDO"})


def test_one_form_for_all_costs_no_less() -> None:
    query = bind("SELECT a.k FROM a JOIN b ON a.k = b.k EXCEPT SELECT k FROM c")
    root, pricer = separate_joins(query.root), price(query)
    for form in FORMS:
        fixed = fixed_modes(root, form)
        assert fill_modes(root, fixed, form) == fixed
        assert assign_modes(root, pricer, form, fixed).cost >= assign_modes(root, pricer, form).cost


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_a_small_hop_is_for_changes_and_a_large_one_for_whole_answers(share: float) -> None:
    """Figure 7.1: with small hops delta wins, with tumbling windows complete does."""
    sql = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 100 SECONDS] JOIN b [RANGE 100 SECONDS] ON a.k = b.k"
    query = bind(sql, f"HOP BY {round(100 * share)} SECONDS EMIT DELTA")
    found = assign_modes(query.root, price(query), "delta")
    assert found.modes[0] == ("DIDO" if share < 0.5 else "CIDO")
