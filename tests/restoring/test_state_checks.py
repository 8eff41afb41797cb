"""State of engines as it comes back, changed by somebody: classes notice what a kernel would follow, and lay
anew what follows from the rest."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import test_checkpoint
from mutated_checkpoints import OPTIONS, taken_apart

import penstock
from penstock.engine.chain.slice_run import SliceRun
from penstock.engine.checkpoints import checkpoint
from penstock.engine.hopping.ticks import Ticks
from penstock.engine.hopping.whole_join import WholeJoin
from penstock.engine.intake.ingest import StreamSchema
from penstock.engine.members.cell_counts import CellCounts
from penstock.engine.members.dimension import Dimension
from penstock.engine.members.lineage import Demand, Lineage, Tags
from penstock.engine.members.row_tags import RowTags
from penstock.engine.panes.pane_aggregate import PaneAggregate, Progressions
from penstock.engine.panes.pane_lanes import Extremes
from penstock.engine.restoring.in_order import Disorder
from penstock.engine.restoring.restorable import restorable
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.store import TextColumn
from penstock.engine.selects.shared_select import SharedSelect
from penstock.engine.windows.partition_changes import PartitionChanges
from penstock.engine.windows.range_changes import RangeChanges


@functools.cache
def written(number: int) -> bytes:
    return test_checkpoint.make(**OPTIONS[number]).checkpoint_bytes()


@functools.cache
def chain() -> bytes:
    return bytes(counted().checkpoint_bytes())


def counted() -> penstock.Engine:
    """Queries that only count, over slices one after the other."""
    engine = penstock.Engine(sharing="chain")
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT)")
    for size in (1, 2, 5):
        text = (
            f"SELECT a.ts, b.ts AS t FROM a [RANGE {size} SECONDS] JOIN b [RANGE {size} SECONDS] ON a.k = b.k"
        )
        engine.query(text, name=f"q{size}", count_only=True)
    for ts in (1, 2, 4):
        for name in "ab":
            engine.push(name, {"ts": [ts * 1_000_000] * 2, "k": [1, 2]})
    return engine


@functools.cache
def filters() -> bytes:
    """Of one stream: by numbers, by texts, by what is no comparison with a constant."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT, l BIGINT, s VARCHAR)")
    for n, where in enumerate(("k < 5", "k > 7 AND k < l", "s = 'x'", "s = 'y' AND k + l = 3")):
        engine.execute(f"CREATE QUERY q{n} AS SELECT * FROM a WHERE {where}")
    engine.push("a", {"ts": [1, 2], "k": [3, 4], "l": [5, 6], "s": ["x", "z"]})
    return bytes(engine.checkpoint_bytes())


def restored(data: bytes) -> list[Any]:
    """All objects of a checkpoint."""
    parts = taken_apart(data)
    header = parts.header
    return checkpoint.Build(restorable(), header["records"], parts.buffers, header["arrays"]).all()


def one_of(made: type, data: bytes, is_wanted: Any = lambda one: True) -> Any:
    return next(one for one in restored(data) if type(one) is made and is_wanted(one))


def longer(array: Any) -> Any:
    return np.concatenate([array, array[:1]])


def put(path: str, value: Any, place: Any = None) -> Any:
    """Put a value, or what a function makes of the one there, where a path of names leads."""

    def change(owner: Any) -> None:
        *names, last = path.split(".")
        for name in names:
            owner = owner[int(name)] if name.isdigit() else getattr(owner, name)
        now = owner[int(last)] if last.isdigit() else getattr(owner, last)
        if place is not None:
            now[place] = value
        elif last.isdigit():
            owner[int(last)] = value(now) if callable(value) else value
        else:
            object.__setattr__(owner, last, value(now) if callable(value) else value)

    return change


NUMBERS, TEXTS = (lambda one: not one.is_text), (lambda one: one._equals is not None)
WITH_ROWS = lambda one: len(one._places)  # noqa: E731
SAYS_TEXT = lambda one: any(  # noqa: E731
    call.type.name == "VARCHAR" for member in one.members if member.said for call in member.calls
)
SAYS = lambda one: any(member.said for member in one.members)  # noqa: E731


def said_of(one: Any) -> Any:
    return next(member.said for member in one.members if member.said)


@pytest.mark.parametrize(
    ("made", "is_wanted", "change"),
    [
        (Dimension, NUMBERS, put("cuts", lambda one: np.append(one, one[:1] - 1))),
        (Dimension, TEXTS, put("_leaves", 99, 0)), (Dimension, TEXTS, put("_leaves", longer)),
        (Dimension, TEXTS, put("cuts", lambda one: [*one, "more"])),
        (Lineage, lambda one: one.dimensions, put("_all.high", 99, (0, 0))),
        (Lineage, lambda one: one.dimensions, put("_all.low", -1, (0, 0))),
        (Lineage, lambda one: one.dimensions, put("leaf_counts", lambda one: (one[0] + 1, *one[1:]))),
        (Lineage, lambda one: one._bits, put("words", lambda one: one + 1)),
        (Lineage, lambda one: one._bits, lambda one: one._bits.update(dict.fromkeys(one._bits, 1 << 40))),
        (Progressions, lambda one: True, put("_pairs", [(0, 0)])),
        (Progressions, lambda one: True, put("_pairs", [(5, 5)])),
        (SharedSelect, lambda one: one._delivering.index, put("_delivering.filed", lambda one: one * 2)),
        (SharedSelect, lambda one: one._delivering.index, put("_lineage", Lineage(()))),
        (RangeChanges, lambda one: one._hop_lanes, put("_hop_lanes.0.demand.low", longer)),
        (RangeChanges, lambda one: one._hop_lanes, put("_hop_lanes.0.demand.bits", lambda one: one[:0])),
        (PartitionChanges, WITH_ROWS, put("_places.live", 1 << 40, 0)),
        (PartitionChanges, WITH_ROWS, put("_ts.end", lambda one: one - 1)),
        (PartitionChanges, WITH_ROWS, put("_gone", 99)),
        (PartitionChanges, WITH_ROWS, lambda one: one._left.append(np.array([1 << 40]))),
        (PartitionChanges, WITH_ROWS, put("_windows", lambda one: one[1:])),
        (PaneAggregate, SAYS, lambda one: put("there", longer)(said_of(one))),
        (PaneAggregate, SAYS, lambda one: put("value", lambda two: two[:0])(said_of(one))),
        (PaneAggregate, lambda one: one.members, put("_promised", 1 << 62, 0)),
        (WholeJoin, lambda one: True, put("due", -(1 << 62))),
        (Ticks, lambda one: one._next is not None and one._reach is None, put("_next", -(1 << 62))),
        (StreamSchema, lambda one: True, put("types", lambda one: one[1:])),
    ],
)  # fmt: skip
def test_state_that_is_not_in_order_is_noticed(made: type, is_wanted: Any, change: Any) -> None:
    owner = one_of(made, filters() if made in (Dimension, Lineage) else written(0), is_wanted)
    owner._check_restored()
    change(owner)
    with pytest.raises(Disorder):
        owner._check_restored()


@pytest.mark.parametrize(
    "change",
    [
        put("_ranges", 7, (0, 1)), put("_flows", longer), put("_spans", longer),
        put("_since", np.zeros(3, np.int64)),
        put("slices", lambda one: one[1:]), put("slices", lambda one: one[::-1]), put("_met", longer),
        put("_sides", lambda one: one[::-1]),
    ],
)  # fmt: skip
def test_a_run_is_of_its_slices(change: Any) -> None:
    run = one_of(SliceRun, chain())
    run._check_restored()
    change(run)
    with pytest.raises(Disorder):
        run._check_restored()


def test_a_run_that_comes_back_goes_on() -> None:
    one = counted()
    two = penstock.Engine.restore_bytes(one.checkpoint_bytes())
    for ts in (5, 6, 9):
        for name in "ab":
            for engine in (one, two):
                engine.push(name, {"ts": [ts * 1_000_000] * 3, "k": [1, 2, 2]})
    found = [{name: query.count for name, query in engine.queries.items()} for engine in (one, two)]
    assert found[0] == found[1] and min(found[0].values()) > 0
    two._runtime._check()


def test_what_texts_were_said_is_looked_at() -> None:
    panes = one_of(PaneAggregate, written(0), SAYS_TEXT)
    member = next(
        one for one in panes.members if one.said and any(c.type.name == "VARCHAR" for c in one.calls)
    )
    at = [call.type.name for call in member.calls].index("VARCHAR")
    member.said.value[at, 0], member.said.valid[at, 0] = 1 << 40, 1
    with pytest.raises(Disorder, match="texts"):
        panes._check_restored()


def test_tags_are_those_of_their_lineage() -> None:
    lineage = one_of(Lineage, filters(), lambda one: one.dimensions and one.words)
    tags = Tags(np.zeros((len(lineage.dimensions), 3), np.int32), np.zeros((lineage.words, 3), np.int64))
    known = RowTags(lineage, tags)
    known._check_restored()
    tags._check_restored()
    batch = Batch(np.arange(3), [])
    batch.known = known
    batch._check_restored()
    for wrong in (lineage.leaf_counts[0], -1):
        tags.leaves[0, 1] = wrong
        with pytest.raises(Disorder):
            known._check_restored()
    with pytest.raises(Disorder):
        RowTags(lineage, Tags(tags.leaves[:0], tags.words))._check_restored()
    with pytest.raises(Disorder):
        Tags(tags.leaves, tags.words[:, 1:])._check_restored()
    batch.known = known.take(slice(1))
    with pytest.raises(Disorder):
        batch._check_restored()
    low = np.zeros((2, 3), np.int32)
    for demand in (Demand(low, low[:, 1:], np.zeros((2, 1), int)), Demand(low, low, np.zeros((3, 1), int))):
        with pytest.raises(Disorder):
            demand._check_restored()


def test_what_was_in_the_midst_is_dropped() -> None:
    """It is of a query that has failed; nothing else is in the midst of something between two pushes."""
    for made, name in ((PaneAggregate, "_batch"),):
        owner = one_of(made, written(0))
        setattr(owner, name, Batch(np.arange(3), []))
        owner.panes._rows = np.full(9, 1 << 30, np.int32)
        owner._check_restored()
        assert getattr(owner, name) is None and not len(owner.panes._rows)


def test_ages_and_entries_are_room_that_is_made_anew() -> None:
    select = one_of(SharedSelect, written(0))
    select._no_ages, select._entries = np.full(9, 1 << 40), np.zeros((1, 9), np.int32)
    select._check_restored()
    assert not len(select._no_ages) and select._entries.shape == (2, 0)


@pytest.mark.parametrize("windows", [[[3, 5], [3, 5]], [[3, 5], [5, 2]]])
def test_cells_are_counted_in_memory_of_their_own(windows: list[list[int]]) -> None:
    """In the same for both sides if their windows are alike."""
    leaves = np.zeros((2, 2), np.int32)
    cells = CellCounts(np.array(windows), leaves, leaves, (1, 1))
    cells._cells[0][0, 0, 1] = 7
    before = cells._cells[0]
    cells._check_restored()
    assert not np.shares_memory(before, cells._cells[0]) and np.array_equal(before, cells._cells[0])
    assert (cells._cells[0] is cells._cells[1]) is (windows[0] == windows[1])
    assert all(map(np.shares_memory, cells._cells, cells._memory))
    cells._high = cells._high.astype(str)
    with pytest.raises(Disorder):
        cells._check_restored()


def test_extremes_are_kept_in_memory_of_their_own() -> None:
    extremes = Extremes(doubles=False, smallest=False)
    for edge in range(5):
        extremes.add(np.zeros(1, np.int32), np.array([edge]), np.empty(0, np.uint8), 0, 1, 1)
        extremes.mark(edge, 1)
    before = [one for block in extremes._blocks for one in block.arrays]
    extremes.check_slots(1)
    after = [one for block in extremes._blocks for one in block.arrays]
    assert len(before) == len(after) and all(map(np.array_equal, before, after))
    assert not any(np.shares_memory(one, other) for one in before for other in after)
    assert extremes.since(1, 1)[0].tolist() == [4]


def test_texts_that_overlap_are_not_looked_at_time_and_again() -> None:
    column = TextColumn()
    column.append(pa.array(["one", "two", "three"]))
    view = column.view()
    view.check_rows(np.array([0, 2, 2, 1]))
    view.starts[1] = 8  # one text has all that the next have
    with pytest.raises(Disorder):
        view.check_rows(np.arange(3))


def test_methods_are_those_an_attribute_was_seen_with() -> None:
    """Another one of the same class takes other arguments, or does something else."""
    from functools import partial

    from penstock.engine.flow.queue import Queue
    from penstock.engine.flow.scheduler import Ready
    from penstock.engine.rows.buffer import RowBuffer

    known, queue, ready = restorable(), Queue(), Ready()
    held = {name: getattr(queue, name) for name in Queue.__slots__}
    for call in (
        RowBuffer("int64").reserve,
        partial(RowBuffer("int64").reserve, 1 << 50),
        queue.pop,
        ready.add,
    ):
        with pytest.raises(LookupError):
            known.check(Queue, held | {"wake": call})
    with pytest.raises(LookupError):
        known.check_call(queue.pop)
