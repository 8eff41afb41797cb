"""The chain of sliced joins against the meaning of windows: a double loop over all rows, nothing shared.

age of a row at a male's time    0 ........ w1 ........ w2 ........ w3
                                 | slice 0  | slice 1  | slice 2  |      half-open: an age of w1 is in slice 1
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from askers import Asker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.chain.chain import ChainGroup
from penstock.engine.chain.slice_counts import SliceCounts
from penstock.engine.chain.slice_join import SliceJoin
from penstock.engine.chain.slice_pairs import Pairs, References
from penstock.engine.expressions.expression import Call, Column, Expression, Literal
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.kernels.chain.slice_join import (
    CLOCK,
    FEMALE,
    FIELDS,
    KIND,
    LIFETIME,
    MALE,
    PAIR_FIELDS,
    POS,
    REACH,
    ROW,
    TS,
)
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import (
    CommonJoin,
    CommonSide,
    JoinNode,
    MemberNode,
    MemberSide,
    SideNode,
    SourceNode,
)
from penstock.engine.rows.band import EQUALITY, Band
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER, Window
from penstock.engine.shelves.side import Side

TYPES = (SqlType.BIGINT, SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR)
ARROW = pa.int64(), pa.int64(), pa.float64(), pa.string()
ID, K, V, S = (Column(type_, n, name) for n, (type_, name) in enumerate(zip(TYPES, "ikvs", strict=True)))


@dataclass(frozen=True)
class Row:
    ts: int
    id: int
    k: int | None
    v: float | None
    s: str | None

    @property
    def values(self) -> tuple[Any, ...]:
        return self.id, self.k, self.v, self.s


# -- what is asked, as an expression and in Python --------------------------------------------------------


@dataclass(frozen=True)
class Asks:
    """A predicate on one side."""

    expression: Expression | None
    holds: Callable[[Row], bool]
    name: str

    def __repr__(self) -> str:
        return self.name


def compare(function: str, column: Column, constant: Any) -> Call:
    return Call(SqlType.BOOLEAN, function, (column, Literal(column.type, constant)))


ALL = Asks(None, lambda row: True, "all")
ASKS = [
    ALL,
    ALL,
    Asks(compare("greater", V, 0.5), lambda row: row.v is not None and row.v > 0.5, "v > 0.5"),
    Asks(compare("less_equal", V, 1.0), lambda row: row.v is not None and row.v <= 1.0, "v <= 1"),
    Asks(compare("equal", S, "b"), lambda row: row.s == "b", "s = b"),
    Asks(compare("not_equal", K, 1), lambda row: row.k is not None and row.k != 1, "k <> 1"),
    Asks(compare("less", V, -1.0), lambda row: row.v is not None and row.v < -1.0, "nobody"),
]


@dataclass(frozen=True)
class Condition:
    keys: tuple[Expression, ...]
    band: Band | None
    holds: Callable[[Row, Row], bool]
    name: str

    def __repr__(self) -> str:
        return self.name


def equal(*columns: str) -> Callable[[Row, Row], bool]:
    return lambda a, b: all(getattr(a, c) is not None and getattr(a, c) == getattr(b, c) for c in columns)


def between(low: int | None, high: int | None) -> Callable[[Row, Row], bool]:
    def holds(a: Row, b: Row) -> bool:
        if a.k is None or b.k is None:
            return False
        return (low is None or b.k - a.k >= low) and (high is None or b.k - a.k <= high)

    return holds


CONDITIONS = [
    Condition((K,), EQUALITY, equal("k"), "k = k"),
    Condition((S,), EQUALITY, equal("s"), "s = s"),
    Condition((K, S), EQUALITY, equal("k", "s"), "k, s"),
    Condition((K,), Band(-1, True, 1, True), between(-1, 1), "band"),
    Condition((K,), Band(0, False, None, False), between(1, None), "k < k"),
    Condition((), None, lambda a, b: True, "any pair"),
]


@dataclass(frozen=True)
class Ask:
    """A query: window and predicate on each side, left and right of the common join."""

    windows: tuple[int, int]
    asks: tuple[Asks, Asks] = (ALL, ALL)
    swapped: bool = False
    counting: bool = False


@dataclass(frozen=True)
class Setting:
    kinds: tuple[str, str]
    condition: Condition
    self_join: bool = False

    @property
    def common(self) -> CommonJoin:
        keys = self.condition.keys
        names = ("a", "a") if self.self_join else ("a", "b")
        sides = [CommonSide(name, kind, keys) for name, kind in zip(names, self.kinds, strict=True)]  # type: ignore[arg-type]
        return CommonJoin(sides[0], sides[1], self.condition.band)

    def node(self, ask: Ask, columns: tuple[int, ...] = (0,)) -> MemberNode:
        sides = [
            MemberSide(window_of(kind, size), asks.expression, columns)
            for kind, size, asks in zip(self.kinds, ask.windows, ask.asks, strict=True)
        ]
        common = self.common
        both = [SideNode(side.window, side.predicate, self.condition.keys, columns) for side in sides]
        inputs = [SourceNode(side.stream, TYPES) for side in common.sides]
        band = common.condition
        if ask.swapped:
            both.reverse()
            inputs.reverse()
            band = None if band is None else band.mirrored()
        join = JoinNode(inputs[0], inputs[1], both[0], both[1], band)
        return MemberNode(join, common, (sides[0], sides[1]), ask.swapped)


def window_of(kind: str, size: int) -> Window:
    return Window(kind, None if size == FOREVER else size)  # type: ignore[arg-type]


# -- the meaning ------------------------------------------------------------------------------------------


def is_in(kind: str, size: int, rows: Sequence[Row], place: int, at: int) -> bool:
    """Whether a row is in a window at an instant."""
    if size == FOREVER:
        return rows[place].ts <= at
    if kind == "range":
        return 0 <= at - rows[place].ts < size
    come = sum(row.ts <= at for row in rows)
    return come - size <= place < come


def naive(setting: Setting, ask: Ask, left: Sequence[Row], right: Sequence[Row]) -> Counter[tuple[int, ...]]:
    """(ts, id, id) of all pairs, the query's left first."""
    found: Counter[tuple[int, ...]] = Counter()
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            at = max(a.ts, b.ts)
            if (
                ask.asks[0].holds(a)
                and ask.asks[1].holds(b)
                and setting.condition.holds(a, b)
                and is_in(setting.kinds[0], ask.windows[0], left, i, at)
                and is_in(setting.kinds[1], ask.windows[1], right, j, at)
            ):
                found[(at, b.id, a.id) if ask.swapped else (at, a.id, b.id)] += 1
    return found


# -- driving a chain --------------------------------------------------------------------------------------


@dataclass
class Drive:
    """A chain with its two queues, and every member's output collected."""

    setting: Setting
    rows: tuple[Sequence[Row], Sequence[Row]]
    seed: int
    ends: Callable[[Sequence[int]], Sequence[int]] | None = None
    at: list[int] = field(default_factory=lambda: [0, 0])
    outputs: dict[str, Queue] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    results: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queues = Queue(), Queue()
        self.random = random.Random(self.seed)
        self.group = ChainGroup(
            self.setting.common, (TYPES, TYPES), self.queues, "join", self.on_failure, self.ends
        )

    def on_failure(self, member: Member, error: Exception) -> None:
        self.collect()
        self.failed[member.name] = error
        self.group.drop(member)

    def add(self, name: str, ask: Ask, columns: tuple[int, ...] = (0,)) -> Member:
        member = Member(Asker(name), ask.counting, self.setting.node(ask, columns))
        member.started = self.starts()
        member.output.queues.append(Queue())
        self.members[name] = member
        self.outputs[name] = member.output.queues[0]
        self.results[name] = []
        self.group.add(member)
        return member

    def starts(self) -> list[int]:
        return [
            queue.punctuation if at else BEGINNING for queue, at in zip(self.queues, self.at, strict=True)
        ]

    def push(self, side: int, count: int) -> None:
        rows = self.rows[side][self.at[side] : self.at[side] + count]
        if rows:
            ts = np.array([row.ts for row in rows], np.int64)
            columns = zip(*(row.values for row in rows), strict=True)
            self.at[side] += len(rows)
            self.queues[side].put(
                Batch(ts, [pa.array(c, type_) for c, type_ in zip(columns, ARROW, strict=True)])
            )
            self.queues[side].promise(max(self.queues[side].punctuation, int(ts[-1])))

    def promise(self, ahead: int) -> None:
        """Time goes on, as far as no row still to come is older."""
        for queue, at, rows in zip(self.queues, self.at, self.rows, strict=True):
            latest = max((one[n - 1].ts for one, n in zip(self.rows, self.at, strict=True) if n), default=0)
            limit = rows[at].ts if at < len(rows) else latest + ahead
            queue.promise(max(queue.punctuation, min(limit, latest + ahead)))

    def turns(self, count: int, quantum: int = 6) -> None:
        """Random operators, each for a few rows; slices stop in the middle of a male now and then."""
        for _ in range(count):
            for slice_ in self.group.slices:
                slice_._pairs = np.empty((PAIR_FIELDS, self.random.choice([1, 2, 8])), np.int64)
            self.random.choice(self.group.operators).step(self.random.randint(1, quantum))
            if self.random.random() < 0.3:
                self.group._check()
        self.collect()

    def settle(self, quantum: int = 5) -> None:
        """Until nobody can do anything."""
        working = True
        while working:
            working = False
            for operator in self.group.operators:
                working = operator.step(quantum) or working
        self.group._check()
        self.collect()

    def feed(self) -> bool:
        """Some rows of one side, cut anywhere; False if there are no more."""
        sides = [side for side in (0, 1) if self.at[side] < len(self.rows[side])]
        if sides:
            self.push(self.random.choice(sides), self.random.choice([1, 1, 2, 5]))
        return bool(sides)

    def finish(self) -> None:
        while self.feed():
            if self.random.random() < 0.3:
                self.promise(self.random.randint(0, 4))
            self.turns(self.random.randint(0, 12))
        for queue in self.queues:
            queue.close()
        self.turns(5)
        self.settle()
        self.group.settle()

    def collect(self) -> None:
        for name, queue in self.outputs.items():
            while queue.batches:
                batch = queue.pop()
                batch._check()
                last = self.results[name][-1][0] if self.results[name] else BEGINNING
                assert batch.ts[0] >= last, "results out of time order"
                columns = [batch.column(i).to_pylist() for i in range(batch.width)]
                self.results[name] += list(zip(batch.ts.tolist(), *columns, strict=True))

    def expected(self, ask: Ask) -> Counter[tuple[int, ...]]:
        return naive(self.setting, ask, *self.rows)

    def stored_ids(self, side: int, refs: Iterable[int]) -> list[int]:
        """Ids of the rows referred to; the id is among the stored columns of every member here."""
        return self.group.sides[side].kept.view(0).take(np.array(list(refs), np.int64)).to_pylist()


KEYS = st.sampled_from([None, 0, 1, 1, 2, 3])
VALUES = st.sampled_from([None, 0.0, 0.5, 1.0, 2.0])
TEXTS = st.sampled_from([None, "a", "b"])


@st.composite
def streams(draw: st.DrawFn, most: int = 12) -> list[Row]:
    """Ties, gaps, duplicates, NULLs."""
    ts, rows = draw(st.integers(-3, 3)), []
    for id_ in range(draw(st.integers(0, most))):
        ts += draw(st.sampled_from([0, 0, 1, 1, 2, 5]))
        rows.append(Row(ts, id_, draw(KEYS), draw(VALUES), draw(TEXTS)))
    return rows


SIZES = st.one_of(st.integers(1, 9), st.sampled_from([1, 3, 3, FOREVER]))


@st.composite
def settings_of(draw: st.DrawFn) -> Setting:
    kinds = draw(
        st.sampled_from([("range", "range"), ("range", "range"), ("rows", "rows"), ("range", "rows")])
    )
    return Setting(kinds, draw(st.sampled_from(CONDITIONS)), draw(st.integers(0, 3)) == 0)


@st.composite
def asks_of(draw: st.DrawFn, setting: Setting, predicates: bool = True) -> Ask:
    sizes = [draw(st.integers(1, 6)) if kind == "rows" else draw(SIZES) for kind in setting.kinds]
    if draw(st.booleans()) and setting.kinds[0] == setting.kinds[1]:
        sizes[1] = sizes[0]
    asks = (draw(st.sampled_from(ASKS)), draw(st.sampled_from(ASKS))) if predicates else (ALL, ALL)
    return Ask((sizes[0], sizes[1]), asks, draw(st.booleans()), draw(st.integers(0, 3)) == 0)


def some_ends(seed: int) -> Callable[[Sequence[int]], Sequence[int]] | None:
    """A choice of ends, always the same for the same windows; None: all."""
    if seed % 2 == 0:
        return None

    def choose(windows: Sequence[int]) -> Sequence[int]:
        return [w for w in windows[:-1] if hash((w, seed)) % 3 == 0] + [windows[-1]]

    return choose


@st.composite
def drives(draw: st.DrawFn, setting: Setting | None = None) -> Drive:
    setting = draw(settings_of()) if setting is None else setting
    left = draw(streams())
    right = left if setting.self_join else draw(streams())
    seed = draw(st.integers(0, 10_000))
    return Drive(setting, (left, right), seed, some_ends(seed))


# -- theorems 1 and 2: the union of a member's slices is the plain window join -----------------------------


@settings(max_examples=120)
@given(st.data())
def test_union_of_slices_is_the_plain_join(data: st.DataObject) -> None:
    drive = data.draw(drives())
    asks = data.draw(st.lists(asks_of(drive.setting), min_size=1, max_size=5))
    for n, ask in enumerate(asks):
        drive.add(f"q{n}", ask)
    drive.finish()
    for n, ask in enumerate(asks):
        member, expected = drive.members[f"q{n}"], drive.expected(ask)
        assert member.complete_from is None
        assert member.found == sum(expected.values()), (n, ask)
        if not ask.counting:
            assert Counter(drive.results[f"q{n}"]) == expected, (n, ask)
        assert member.output.closed


@settings(max_examples=80)
@given(st.data())
def test_each_slice_has_the_pairs_of_its_ages(data: st.DataObject) -> None:
    """Definition 3: a slice gives the pairs whose older row's age is within it, and no other slice does."""
    drive = data.draw(drives(Setting(("range", "range"), CONDITIONS[0])))
    windows = sorted(data.draw(st.sets(st.integers(1, 9), min_size=2, max_size=5)))
    drive.ends = None
    drive.__post_init__()
    for window in windows:
        drive.add(f"q{window}", Ask((window, window)))
    taps = []
    for slice_ in drive.group.slices:
        taps.append(Queue())
        slice_.output.queues.append(taps[-1])
    drive.finish()
    by_id = [{row.id: row for row in rows} for rows in drive.rows]
    largest = Counter((a, b) for _, a, b in drive.expected(Ask((windows[-1], windows[-1]))).elements())
    seen: Counter[tuple[int, int]] = Counter()
    for slice_, tap in zip(drive.group.slices, taps, strict=True):
        for batch in tap.batches:
            assert isinstance(batch, Pairs)
            ids = [drive_ids(drive, side, batch.rows[side]) for side in (0, 1)]
            for a, b in zip(*ids, strict=True):
                assert slice_.start <= abs(by_id[0][a].ts - by_id[1][b].ts) < slice_.end
                seen[a, b] += 1
    assert seen == largest


def drive_ids(drive: Drive, side: int, refs: Any) -> list[int]:
    """Ids by row number where every row with a key is stored."""
    kept = [row.id for row in drive.rows[side] if row.k is not None]
    return [kept[ref] for ref in refs]


# -- theorems 3 and 4: states are disjoint, and exactly what somebody needs -------------------------------


@settings(max_examples=150)
@given(st.data())
def test_states_together_are_the_largest_windows_state(data: st.DataObject) -> None:
    """When all is quiet each row is held exactly as long as the longest window among those that want it."""
    drive = data.draw(drives())
    asks = data.draw(st.lists(asks_of(drive.setting), min_size=1, max_size=4))
    for n, ask in enumerate(asks):
        drive.add(f"q{n}", ask)
    while drive.feed():
        if drive.random.random() < 0.3:
            drive.promise(3)
        drive.settle()
        now = min(queue.punctuation for queue in drive.queues)
        assert drive.group.head.now == now
        assert not any(slice_.waiting.shape[1] for slice_ in drive.group.slices)
        for side, kind in enumerate(drive.setting.kinds):
            instants = "rows" in drive.setting.kinds
            come = [
                row
                for row in drive.rows[side][: drive.at[side]]
                if (row.ts < now if instants else row.ts <= now)
            ]
            for slice_ in drive.group.slices:
                held = set(drive.stored_ids(side, slice_.females(side)))
                needed = set()
                for place, row in enumerate(come):
                    age = len(come) - 1 - place if kind == "rows" else now - row.ts
                    wanted = max((ask.windows[side] for ask in asks if ask.asks[side].holds(row)), default=0)
                    has_key = all(
                        getattr(row, key.name) is not None
                        for key in drive.setting.condition.keys
                        if isinstance(key, Column)
                    )
                    # a slice whose inner ends were merged keeps a row to its own end, or the longest window
                    until = min(slice_.end, max(ask.windows[side] for ask in asks))
                    if has_key and wanted > slice_.start and slice_.start <= age < until:
                        needed.add(row.id)
                assert held == needed, (side, slice_.start, slice_.end)
        if drive.ends is None:
            for slice_ in drive.group.slices:
                assert slice_.end in {window for ask in asks for window in ask.windows}


def test_rows_nobody_needs_do_not_enter() -> None:
    rows = [Row(n, n, 1, float(n % 2), "a") for n in range(10)]
    drive = Drive(Setting(("range", "range"), CONDITIONS[0]), (rows, rows), 1)
    drive.add("q", Ask((4, 4), (ASKS[2], ALL)))  # v > 0.5 on the left
    drive.add("r", Ask((2, 2), (ASKS[2], ALL)))
    drive.push(0, 10)
    drive.push(1, 10)
    drive.settle()
    left, right = drive.group.sides
    assert left.seen.rows_kept == 5 and right.seen.rows_kept == 10
    assert [slice_.females(0).tolist() for slice_ in drive.group.slices] == [[4], [3]]


def test_state_is_empty_once_time_has_passed_every_window() -> None:
    rows = [Row(n, n, 1, 1.0, "a") for n in range(30)]
    for kinds in (("range", "range"), ("range", "rows")):
        drive = Drive(Setting(kinds, CONDITIONS[0]), (rows, rows), 1)
        for window in (3, 7, 20):
            drive.add(f"q{window}", Ask((window, window)))
        drive.push(0, 30)
        drive.push(1, 30)
        drive.settle()
        assert drive.group.state_rows > 0
        for queue in drive.queues:
            queue.promise(1_000)
        drive.settle()
        assert drive.group.state_rows == (0 if kinds[1] == "range" else 20)
        drive.group.head.step(1)  # rows are let go at its next turn
        assert len(drive.group.sides[0]) == 0


# -- table 2 of the paper ----------------------------------------------------------------------------------

SECOND = 1_000_000


def test_table_2_of_the_paper() -> None:
    """A one-way chain, every a with every b: an operator a second, a reference at a time.

    The paper purged at ages above the window, so its 2 s and 4 s are ours and a microsecond. Its row 9 lets
    a4 purge a3, which only a b can.

        T   1   2   3   4   5   6   7   8   9   10
        in  a1  a2  a3  b1  b2          a4
        run J1  J1  J1  J1  J1  J2  J2  J1  J2  J2
    """
    side = CommonSide("a", "range", ())
    sides = tuple(Side(n, side, TYPES, Queue(), None) for n in (0, 1))
    w1, w2 = 2 * SECOND + 1, 4 * SECOND + 1
    for one in sides:
        one.keep_for(w2)
    arrivals, between_them = Queue(), Queue()
    j1 = SliceJoin(0, w1, arrivals, sides, "J1", BEGINNING, SliceCounts())  # type: ignore[arg-type]
    j2 = SliceJoin(w1, w2, between_them, sides, "J2", BEGINNING, SliceCounts())  # type: ignore[arg-type]
    j1.onward.queues.append(between_them)
    found = [Queue(), Queue()]
    for one, tap in zip((j1, j2), found, strict=True):
        one.output.queues.append(tap)

    def arrive(name: str, second: int) -> None:
        table = np.zeros((FIELDS, 1), np.int64)
        table[TS], table[ROW] = second * SECOND, int(name[1])
        if name[0] == "a":
            table[KIND], table[POS], table[LIFETIME] = FEMALE, second * SECOND, w2
        else:
            table[KIND], table[CLOCK], table[REACH] = MALE + 1, second * SECOND, w2
        arrivals.put(References(table))

    def output() -> list[str]:
        some = [batch for tap in found for batch in tap.batches if isinstance(batch, Pairs)]
        for tap in found:
            tap.clear()
        return [f"a{a}b{b}" for pairs in some for a, b in zip(*pairs.rows, strict=True)]

    steps: list[tuple[str | None, SliceJoin, str, str, str, str]] = [
        ("a1", j1, "a1", "", "", ""),
        ("a2", j1, "a2 a1", "", "", ""),
        ("a3", j1, "a3 a2 a1", "", "", ""),
        ("b1", j1, "a3 a2", "b1 a1", "", "a2b1 a3b1"),
        ("b2", j1, "a3", "b2 a2 b1 a1", "", "a3b2"),
        (None, j2, "a3", "b2 a2 b1", "a1", ""),
        (None, j2, "a3", "b2 a2", "a1", "a1b1"),
        ("a4", j1, "a4 a3", "b2 a2", "a1", ""),
        (None, j2, "a4 a3", "b2", "a2 a1", ""),
        (None, j2, "a4 a3", "", "a2 a1", "a1b2 a2b2"),
    ]
    for second, (name, operator, first, queue, second_state, pairs) in enumerate(steps, 1):
        if name is not None:
            arrive(name, second)
        assert operator.step(1)
        assert [f"a{n}" for n in j1.females(0)[::-1]] == first.split(), second
        waiting = [
            f"{'a' if kind == FEMALE else 'b'}{row}" for kind, row in j2.waiting[[KIND, ROW]].T.tolist()
        ]
        assert waiting[::-1] == queue.split(), second
        assert [f"a{n}" for n in j2.females(0)[::-1]] == second_state.split(), second
        assert output() == pairs.split(), second
