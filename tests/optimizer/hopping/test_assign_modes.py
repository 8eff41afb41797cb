"""Mode assignment against every assignment there is, for drawn plans, machines and rates."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hopping_help import bind, keys, price, rates, weights
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from query_trees import Trees

import penstock
from penstock.optimizer.costs.weights import SHIPPED, read
from penstock.optimizer.hopping.assign_modes import Pricer, assign_modes, fixed_modes
from penstock.optimizer.hopping.optimize_hopping import assign_forced
from penstock.optimizer.plan.modes import Form, Mode, fill_modes, operators_of, reads, writes
from penstock.optimizer.rewrite.separate_joins import separate_joins
from penstock.optimizer.tree.logical import Filter, Node, Project, TableScan, inputs_of

Every = list[tuple[Form, float, tuple[Mode, ...]]]
FORMS: list[Form] = ["delta", "complete"]


def every_assignment(node: Node, pricer: Pricer, is_top: bool = True) -> Every:
    """What a tree writes and costs in each assignment of modes that fits together."""
    below_top = is_top and isinstance(node, Filter | Project)
    below: Every = [("delta", 0.0, ()), ("complete", 0.0, ())]
    parts = [every_assignment(part, pricer, below_top) for part in inputs_of(node)]
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
        for mode, own in pricer.operator(node, flows, flow, is_top).items()
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


@pytest.mark.parametrize(
    ("sql", "dearer"),
    [
        ("SELECT a.k FROM a JOIN b ON a.k = b.k", True),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", True),
        ("SELECT k FROM a", True),
        ("SELECT k, COUNT(*) AS n FROM (SELECT k FROM a UNION ALL SELECT k FROM b) AS u GROUP BY k", True),
        ("SELECT k, COUNT(*) AS n FROM a GROUP BY k", False),  # from panes, whose changes are net
    ],
)
def test_changes_of_the_topmost_operator_are_netted(sql: str, dearer: bool) -> None:
    """Nothing else of it costs more than below another operator, but for the answer to be given."""
    query = bind(sql)
    root, pricer = separate_joins(query.root), price(query)
    top = operators_of(root)[0].node
    flows = [pricer.flow(part) for part in inputs_of(top)]
    below, above = (pricer.operator(top, flows, pricer.flow(top), is_top) for is_top in (False, True))
    more = {mode: above[mode] - below[mode] for mode in below}
    assert min(more.values()) == pytest.approx(more["DICO"]) and more["DICO"] > 0
    for mode, cost in more.items():
        assert (cost > 1.01 * more["DICO"]) == (mode == "DIDO" and dearer), mode


def test_an_end_that_costs_much_decides_the_mode_at_the_top_alone() -> None:
    """Where netting is dear a difference at the top compares answers, but not one below an aggregate."""
    dear = dataclasses.replace(read(SHIPPED), hop_net=1e-4)
    difference = "SELECT k, v FROM a EXCEPT SELECT k, v FROM b"
    tail = "WINDOW 1000 SECONDS HOP BY 1 SECOND EMIT DELTA"
    for weights_, mode in ((read(SHIPPED), "DIDO"), (dear, "CIDO")):
        query = bind(difference, tail)
        assert assign_modes(separate_joins(query.root), price(query, weights_), "delta").modes[0] == mode
    counted = bind(f"SELECT k, COUNT(*) AS n FROM ({difference}) AS d GROUP BY k", tail)
    modes = assign_modes(separate_joins(counted.root), price(counted, dear), "complete").modes
    assert modes[1] == "DIDO"
