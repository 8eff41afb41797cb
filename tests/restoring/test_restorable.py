"""The closed list of what a checkpoint may hold: what is on it, what is not, and that all are looked at."""

from __future__ import annotations

import inspect
import io
import re
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
import write_restorable

from penstock.engine.checkpoints.object_graph import is_value
from penstock.engine.flow.queue import Queue, nobody
from penstock.engine.restoring.restorable import PACKAGE, Restorable, Unknown, found, restorable
from penstock.engine.rows import errors

KNOWN = restorable()
LOOKED_AT_BY_OTHERS = {
    # By the batch, the operator, the store or the index that has them.
    "engine.rows.batch.Gather", "engine.changes.group_table.IndirectView",
    "engine.changes.group_by.PointView", "engine.changes.group_by.TextPointView",
    "engine.selects.shared_select.CommonColumn",
    "engine.kernels.joins.query_index.Filing", "engine.kernels.joins.query_index.Members",
    "engine.members.query_index.Fits",
    "engine.kernels.indexes.sorted_nodes.Nodes", "engine.kernels.indexes.ttree.Links",
    "engine.panes.pane_lanes.Block",
    "engine.panes.pane_lanes.Counts", "engine.panes.pane_lanes.Extremes", "engine.panes.pane_lanes.Sums",
    "engine.panes.pane_lanes.TextExtremes", "engine.panes.pane_marks.Marks",
    "engine.members.member_sets.MemberSets",
    "engine.panes.pane_member.Said",  # PaneMember.check_said, asked by PaneAggregate
}  # fmt: skip
NOT_FOLLOWED = {
    # No kernel follows what is in them: numpy reads them, which looks for itself.
    "engine.flow.delays.Delays", "engine.members.dimension.Comparisons",
    "engine.results.results_memory.HeldView", "engine.rows.store.Viewed",
    "optimizer.explain.explain_many.ManyLayout",
    "engine.changes.aggregates.CountValues",  # counts by slot, made longer before slots are looked up
}  # fmt: skip
NOT_KEPT = {
    # Of what is being worked: between two pushes there is none, and who has it drops it when it comes back.
    "engine.changes.group_table.Changes",  # Tally
    "engine.changes.change_join.Work", "engine.changes.expire._Work",
    "engine.panes.panes.PaneWindow", "engine.panes.pane_values.PaneValues",  # PaneAggregate
    "engine.ordered_keys.unmatched.Unmatched",  # FinalJoin
}  # fmt: skip


def test_who_has_arrays_looks_at_them() -> None:
    """A class with an array is on one of these lists, or says in `_check_restored` what must hold."""
    with_arrays = {
        name
        for name in KNOWN.names()
        if any("array" in line for line in KNOWN.lines_of(name))
        and not hasattr(found(name), "_check_restored")
    }
    assert with_arrays == LOOKED_AT_BY_OTHERS | NOT_FOLLOWED | NOT_KEPT


def test_only_what_engines_hold_is_on_the_list() -> None:
    """No reader, writer, lock, thread or socket; nothing of connectors, the command or Spark."""
    for name in KNOWN.names():
        made = found(name)
        assert isinstance(made, type) and (PACKAGE + name).startswith(write_restorable.HOLDERS), name
        assert not issubclass(made, io.IOBase | threading.Thread | BaseExceptionGroup), name
        source = inspect.getsource(inspect.getmodule(made) or made)
        side_effects = r"(?<![\w.])open\(|import (socket|subprocess|shutil|ctypes)|write_whole\("
        assert not re.search(side_effects, source), name


def test_errors_are_on_the_list() -> None:
    for _, one in inspect.getmembers(errors, inspect.isclass):
        assert not issubclass(one, errors.PenstockError) or one in KNOWN


@pytest.mark.slow
def test_the_list_is_that_of_the_classes_there_are() -> None:
    import json

    table = write_restorable.Table(json.loads(write_restorable.SEEN.read_text()))
    assert write_restorable.TABLE.read_text().splitlines() == list(table.lines())


def test_attributes_have_their_types() -> None:
    held = {name: getattr(Queue(), name) for name in Queue.__slots__}
    KNOWN.check(Queue, held)
    for name, value in [
        ("rows", 1.0), ("rows", None), ("closed", 0), ("batches", []), ("messages", [1, "x"]),
        ("messages", (1,)), ("columns", [1]), ("columns", ("x",)), ("wake", 1), ("wake", None),
        ("punctuation", True),
    ]:  # fmt: skip
        with pytest.raises(Unknown, match=f"Expected another `{name}` of `Queue`"):
            KNOWN.check(Queue, held | {name: value})
    for call in (print, partial(nobody, 1)):
        with pytest.raises(Unknown):
            KNOWN.check_call(call)
    with pytest.raises(Unknown, match="Expected `Queue` with"):
        KNOWN.check(Queue, {name: value for name, value in held.items() if name != "rows"})
    with pytest.raises(Unknown, match="more"):
        KNOWN.check(Queue, held | {"more": 1})


LIST = """
engine.flow.queue.Queue
    one: array(int64, 1)
    gaps: array(int64, 1)
    maybe?: None | tuple[int, str] | dict[str, list[engine.flow.queue.Outlet]] | Kind
    word: 'a' | 'b'
Kind = engine.rows.types.SqlType
"""


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("one", np.zeros(2, np.int64), True), ("one", np.zeros(2, np.int32), False),
        ("one", np.zeros((2, 2), np.int64), False), ("one", np.zeros(4, object), False),
        ("gaps", np.zeros(4, np.int64)[::2], True), ("gaps", [1], False),
        ("maybe", None, True), ("maybe", (1, "x"), True), ("maybe", (1,), False), ("maybe", {"x": []}, True),
        ("maybe", {1: []}, False), ("maybe", {"x": [Queue()]}, False),
        ("word", "a", True), ("word", "c", False),
        ("maybe", Restorable, False), ("word", None, False),
    ],
)  # fmt: skip
def test_what_lines_of_the_list_mean(name: str, value: Any, fits: bool) -> None:
    held = {"one": np.zeros(1, np.int64), "gaps": np.zeros(1, np.int64), "word": "a", name: value}
    known = Restorable(LIST)
    if fits:
        known.check(Queue, held)
    else:
        with pytest.raises(Unknown):
            known.check(Queue, held)


def test_values_are_told_from_objects() -> None:
    """Whoever is made whole and whoever is made empty are told apart by their class alone."""
    kinds = {is_value(found(name)) for name in KNOWN.names()}
    assert kinds == {True, False}
