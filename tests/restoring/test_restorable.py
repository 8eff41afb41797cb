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
SELF_CONTAINED = {
    # Looked at where they are used: by the batch, the operator, the store or the index that has them.
    "engine.batch.Gather", "engine.groups.IndirectView", "engine.operators.group_by.PointView",
    "engine.operators.group_by.TextPointView", "engine.operators.shared_select.CommonColumn",
    "engine.kernels.query_index.Filing", "engine.kernels.query_index.Members", "engine.query_index.Fits",
    "engine.kernels.sorted_nodes.Nodes", "engine.kernels.ttree.Links", "engine.pane_lanes.Block",
    "engine.pane_lanes.Counts", "engine.pane_lanes.Extremes", "engine.pane_lanes.Sums",
    "engine.pane_lanes.TextExtremes", "engine.pane_marks.Marks",
    # No kernel follows what is in them: numpy reads them, which looks for itself.
    "engine.delays.Delays", "engine.dimension.Comparisons", "engine.dimension.Dimension",
    "engine.coverage.Elsewhere", "engine.held_memory.HeldView", "engine.store.Viewed",
    "optimizer.explain_many.ManyLayout", "engine.operators.ticks.Ticks",
}  # fmt: skip
NOT_LOOKED_AT = {
    # Types and dimensions are sure, values are not: to be done.
    "engine.aggregates.CountValues", "engine.cell_counts.CellCounts", "engine.groups.Changes",
    "engine.lineage.Demand", "engine.lineage.Tags", "engine.member_sets.MemberSets",
    "engine.operators.change_join.ChangeJoin", "engine.operators.change_join.Work",
    "engine.operators.expire._Work", "engine.operators.held_pairs.Held",
    "engine.operators.hop_delta.HopDelta", "engine.operators.ordered_union.OrderedUnion",
    "engine.operators.pair_giver.PairGiver", "engine.operators.pane_aggregate.PaneAggregate",
    "engine.operators.pane_aggregate.Progressions", "engine.operators.row_giver.MemberIndex",
    "engine.operators.shared_select.SharedSelect", "engine.operators.shared_window_select.SharedWindowSelect",
    "engine.operators.slice_run.SliceRun", "engine.operators.tell_partitions.PartitionTeller",
    "engine.operators.tell_ranges.RangeTeller", "engine.operators.whole_join.WholeJoin",
    "engine.pane_member.Said", "engine.pane_values.PaneValues", "engine.panes.PaneWindow",
    "engine.rows_beside.RowsBeside", "engine.text_extreme.TextExtreme",
}  # fmt: skip


def test_who_has_arrays_looks_at_them() -> None:
    """A class with an array is on this list, or says in `_check_restored` what must hold."""
    with_arrays = {
        name
        for name in KNOWN.names()
        if any("array" in line for line in KNOWN.lines_of(name))
        and not hasattr(found(name), "_check_restored")
    }
    assert with_arrays == SELF_CONTAINED | NOT_LOOKED_AT


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
        ("messages", (1,)), ("columns", [1]), ("columns", ("x",)), ("wake", print), ("wake", None),
        ("wake", partial(nobody, 1)), ("punctuation", True),
    ]:  # fmt: skip
        with pytest.raises(Unknown, match=f"Expected another `{name}` of `Queue`"):
            KNOWN.check(Queue, held | {name: value})
    with pytest.raises(Unknown, match="Expected `Queue` with"):
        KNOWN.check(Queue, {name: value for name, value in held.items() if name != "rows"})
    with pytest.raises(Unknown, match="more"):
        KNOWN.check(Queue, held | {"more": 1})


LIST = """
engine.queue.Queue
    one: array(int64, 1)
    gaps~: array(int64, 1)
    maybe?: None | tuple[int, str] | dict[str, list[engine.queue.Outlet]] | Kind
    word: 'a' | 'b'
Kind = engine.types.SqlType
"""


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("one", np.zeros(2, np.int64), True), ("one", np.zeros(2, np.int32), False),
        ("one", np.zeros((2, 2), np.int64), False), ("one", np.zeros(4, np.int64)[::2], False),
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
