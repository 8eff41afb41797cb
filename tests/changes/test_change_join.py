"""ChangeJoin: at every instant the join of the rows that are there, however they came and went."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from change_joins_help import (
    END,
    Change,
    Fold,
    alive,
    batch_of,
    changes,
    examples,
    push,
    row_of,
    rows_of,
    same,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.changes import bag, change_join
from penstock.engine.changes.change_join import ChangeJoin
from penstock.engine.changes.expire import Expire
from penstock.engine.expressions.expression import Call, Column, Expression, Literal
from penstock.engine.flow.heard_time import Learning
from penstock.engine.flow.queue import Queue
from penstock.engine.plan.plan import ChangeJoinNode, ExpireNode, JoinKind, SourceNode
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER

NAN = float("nan")
TYPES = (SqlType.DOUBLE, SqlType.VARCHAR, SqlType.BIGINT)
VALUES = st.tuples(
    st.sampled_from([0.0, -0.0, 1.0, NAN, None]), st.sampled_from(["a", "b", None]), st.sampled_from([1, 2])
)
KEYS = st.sampled_from([(), (0,), (1,), (2,), (0, 1)])
LEARNINGS = st.sampled_from(["promises", "messages", "rows"])
LESS = Call(SqlType.BOOLEAN, "less", (Column(SqlType.BIGINT, 2), Column(SqlType.BIGINT, 5)))
RESIDUALS = st.sampled_from([None, None, LESS])


def join_of(
    queues: tuple[Queue, Queue],
    keys: Sequence[int],
    kind: JoinKind = "inner",
    residual: Expression | None = None,
    learning: Learning = "promises",
    messages: bool = False,
    instants: bool = False,
    types: Sequence[SqlType] = TYPES,
) -> ChangeJoin:
    source = SourceNode("s", tuple(types))
    node = ChangeJoinNode(kind, source, source, tuple(keys), tuple(keys), residual, instants)
    return ChangeJoin(node, queues, (types, types), "join", learning, messages)


Row = tuple[Any, ...]


def meet(left: Row, right: Row, keys: Sequence[int], residual: Expression | None) -> bool:
    if any(left[key] is None or same(left[key]) != same(right[key]) for key in keys):
        return False
    return residual is None or left[2] < right[2]


def joined(
    kind: JoinKind, lefts: list[Row], rights: list[Row], keys: Sequence[int], residual: Expression | None,
    width: int = 3,
) -> Counter[Row]:  # fmt: skip
    """The join of two bags, by trying all pairs."""
    nulls = (None,) * width
    tried = product(range(len(lefts)), range(len(rights)))
    pairs = [(l, r) for l, r in tried if meet(lefts[l], rights[r], keys, residual)]
    with_match = {l for l, _ in pairs}, {r for _, r in pairs}
    rows: list[Any] = []
    if kind in ("semi", "anti"):
        rows = [row for l, row in enumerate(lefts) if (l in with_match[0]) == (kind == "semi")]
    else:
        rows = [lefts[l] + rights[r] for l, r in pairs]
    if kind in ("left", "full"):
        rows += [row + nulls for l, row in enumerate(lefts) if l not in with_match[0]]
    if kind in ("right", "full"):
        rows += [nulls + row for r, row in enumerate(rights) if r not in with_match[1]]
    return Counter(row_of(row) for row in rows)


def run(
    operator: ChangeJoin, lefts: Sequence[Change], rights: Sequence[Change], seed: int, chunk: int
) -> Fold:
    fold = Fold(operator)
    push(fold, [(operator.inputs[0], lefts, TYPES), (operator.inputs[1], rights, TYPES)], seed)
    assert operator.counters.rows_in == len(lefts) + len(rights)
    assert operator.counters.rows_out == len(fold.read())
    assert max(fold.batches, default=0) <= 3 * chunk + 1
    fold.check_order()
    return fold


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Bags that grow and are laid out anew with a few rows."""
    patch.setattr(bag, "FEW_ROWS", 2)
    patch.setattr(bag, "MIN_SLOTS", 2)


@given(
    st.data(), KEYS, RESIDUALS, LEARNINGS, st.integers(0, 999), st.sampled_from([1, 3, 1000]),
    st.sampled_from([1, 4, 100]), st.sampled_from(["finite", "forever", "both"]),
    st.sampled_from(["finite", "forever", "both"]), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(150))
def test_inner(
    data: st.DataObject, keys: tuple[int, ...], residual: Expression | None, learning: Learning, seed: int,
    chunk: int, patience: int, left_ends: str, right_ends: str, messages: bool, instants: bool,
) -> None:  # fmt: skip
    lefts, rights = data.draw(changes(VALUES, left_ends)), data.draw(changes(VALUES, right_ends))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_join, "CHUNK_ROWS", chunk)
        patch.setattr(change_join, "PATIENCE_CHANGES", patience)
        make_small(patch)
        operator = join_of((Queue(), Queue()), keys, "inner", residual, learning, messages, instants)
        fold = run(operator, lefts, rights, seed, chunk)
    for ts in range(END + 2):
        assert fold.at(ts) == joined("inner", alive(lefts, ts), alive(rights, ts), keys, residual), ts
    check_messages(fold, messages)
    stay = sum(row.sign for row in [*lefts, *rights] if row.ets == FOREVER)
    assert operator.state_rows <= stay


def check_messages(fold: Fold, messages: bool) -> None:
    """Every time at which a pair leaves by itself is told once, and no time at which none ever could."""
    told = fold.queue.messages
    assert told == sorted(set(told))
    if not messages:
        assert not told
        return
    ends: Counter[int] = Counter()
    for row in fold.read():
        if row.ets != FOREVER:
            ends[row.ets] += row.sign
    assert set(+ends) <= set(told)
    assert set(told) <= set(ends)


@given(
    st.data(), st.sampled_from(["left", "right", "full", "semi", "anti"]), KEYS, RESIDUALS, LEARNINGS,
    st.integers(0, 999), st.sampled_from([1, 3, 1000]), st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(150))
def test_counted(
    data: st.DataObject, kind: JoinKind, keys: tuple[int, ...], residual: Expression | None,
    learning: Learning, seed: int, chunk: int, instants: bool,
) -> None:  # fmt: skip
    lefts, rights = data.draw(changes(VALUES, "forever")), data.draw(changes(VALUES, "forever"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_join, "CHUNK_ROWS", chunk)
        make_small(patch)
        operator = join_of((Queue(), Queue()), keys, kind, residual, learning, False, instants)
        fold = run(operator, lefts, rights, seed, chunk)
    assert all(row.ets == FOREVER for row in fold.rows)
    for ts in range(END + 2):
        assert fold.at(ts) == joined(kind, alive(lefts, ts), alive(rights, ts), keys, residual), ts
    if instants and chunk == 1000:
        check_no_flips(fold, [*lefts, *rights])


def check_no_flips(fold: Fold, come: list[Change]) -> None:
    """A row by itself is not sent both ways in an instant in which it was there all the time."""
    changed = {(row.ts, row_of(row.values)) for row in come}
    operator = fold.operator
    padded = [
        (row.ts, row_of(row.values), row.sign)
        for row in fold.rows
        if operator._node.kind in ("semi", "anti") or row.values[2] is None or row.values[5] is None
    ]
    sent = {(ts, values): {s for t, v, s in padded if (t, v) == (ts, values)} for ts, values, _ in padded}
    for (ts, values), signs in sent.items():
        if (ts, values[:3]) not in changed and (ts, values[3:]) not in changed:
            assert len(signs) == 1


def rows(*changes_: tuple[int, int, int], ets: int = FOREVER) -> list[Change]:
    """Changes (ts, sign, key) of rows of two columns."""
    return [Change(ts, sign, ets, (key, 10 * key)) for ts, sign, key in changes_]


TWO = (SqlType.BIGINT, SqlType.BIGINT)


def given_by(kind: JoinKind, lefts: list[Change], rights: list[Change], instants: bool = True) -> list[Any]:
    queues = Queue(), Queue()
    fold = Fold(join_of(queues, (0,), kind, types=TWO, instants=instants))
    for queue, side in zip(queues, (lefts, rights), strict=True):
        queue.put(batch_of(side, TWO, True))
        queue.promise(100)
        queue.close()
    while fold.step(1000):
        pass
    return [(row.ts, row.sign, *row.values[::2]) for row in fold.read()]


def test_a_row_without_a_match_is_given_once_and_withdrawn_when_one_comes() -> None:
    """
    left   1 |=================== 9
    right       3 |====| 5   7 |===
    """
    lefts, rights = rows((1, 1, 4), (9, -1, 4)), rows((3, 1, 4), (5, -1, 4), (7, 1, 4))
    assert given_by("left", lefts, rights) == [
        (1, 1, 4, None),
        (3, 1, 4, 4), (3, -1, 4, None),
        (5, -1, 4, 4), (5, 1, 4, None),
        (7, 1, 4, 4), (7, -1, 4, None),
        (9, -1, 4, 4),
    ]  # fmt: skip
    assert given_by("anti", lefts, rights) == [(1, 1, 4), (3, -1, 4), (5, 1, 4), (7, -1, 4)]
    assert given_by("semi", lefts, rights) == [(3, 1, 4), (5, -1, 4), (7, 1, 4), (9, -1, 4)]


def test_every_row_of_a_full_join_without_a_match_is_given_once() -> None:
    lefts, rights = rows((1, 1, 1), (1, 1, 2), (1, 1, 2)), rows((1, 1, 3), (1, 1, 2))
    assert sorted(given_by("full", lefts, rights), key=str) == sorted(
        [(1, 1, 1, None), (1, 1, None, 3), (1, 1, 2, 2), (1, 1, 2, 2)], key=str
    )


def test_a_match_that_is_replaced_within_an_instant_does_not_show() -> None:
    lefts, rights = rows((1, 1, 4)), rows((2, 1, 4), (5, -1, 4), (5, 1, 4))
    assert given_by("semi", lefts, rights) == [(2, 1, 4)]
    assert given_by("anti", lefts, rights) == [(1, 1, 4), (2, -1, 4)]


def test_a_row_is_not_given_by_itself_before_all_its_pairs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one right row that satisfies the residual is in the last chunk of candidates."""
    monkeypatch.setattr(change_join, "CHUNK_ROWS", 2)
    less = Call(SqlType.BOOLEAN, "less", (Column(SqlType.BIGINT, 1), Column(SqlType.BIGINT, 3)))
    queues = Queue(), Queue()
    fold = Fold(join_of(queues, (), "left", types=TWO, residual=less))
    queues[0].put(batch_of([Change(1, 1, FOREVER, (1, 5))], TWO, True))
    queues[1].put(batch_of([Change(0, 1, FOREVER, (n, 9 if n == 0 else 0)) for n in range(7)], TWO, True))
    for queue in queues:
        queue.promise(9)
    while fold.step(1000):
        pass
    assert [(row.ts, row.sign, row.values) for row in fold.read()] == [(1, 1, (1, 5, 0, 9))]


def test_rows_joined_with_a_table_are_not_kept() -> None:
    queues = Queue(), Queue()
    operator = join_of(queues, (0,), types=TWO, messages=True)
    operator._is_static = False, True  # below the right one are tables alone
    fold = Fold(operator)
    queues[1].put(batch_of(rows((0, 1, 4), (0, 1, 4), (0, 1, 5)), TWO, True))
    queues[1].promise(1000)
    queues[1].close()
    queues[0].promise(1)
    while fold.step(1000):
        pass
    stream = [
        *rows((1, 1, 4), ets=5),
        *rows((1, 1, 6), ets=6),
        *rows((2, 1, 5), ets=7),
        *rows((3, -1, 4), ets=5),
    ]
    queues[0].put(batch_of(stream, TWO, True))
    queues[0].promise(4)
    while fold.step(1000):
        pass
    assert operator.state_rows == 3
    assert [(row.ts, row.sign, row.ets, row.values[0]) for row in fold.read()] == [
        (1, 1, 5, 4), (1, 1, 5, 4), (2, 1, 7, 5), (3, -1, 5, 4), (3, -1, 5, 4),
    ]  # fmt: skip
    queues[0].promise(50)
    while fold.step(1000):
        pass
    assert fold.queue.messages == [5, 7]


def test_a_message_for_each_time_at_which_pairs_leave() -> None:
    """Only the pair's end is told: that of its row with the smaller ets."""
    queues = Queue(), Queue()
    fold = Fold(join_of(queues, (0,), types=TWO, messages=True))
    queues[0].put(batch_of([*rows((1, 1, 4), (1, 1, 4), ets=5), *rows((1, 1, 7), ets=6)], TWO, True))
    queues[1].put(batch_of([*rows((2, 1, 4), ets=8)], TWO, True))
    for queue in queues:
        queue.promise(50)
    while fold.step(1000):
        pass
    assert fold.queue.messages == [5]


def test_pairs_that_were_withdrawn_are_told_when_they_would_have_left() -> None:
    """Whoever keeps rows until they leave has the pair and its withdrawal until then."""
    queues = Queue(), Queue()
    fold = Fold(join_of(queues, (0,), types=TWO, messages=True))
    queues[0].put(batch_of(rows((1, 1, 4), ets=20), TWO, True))
    queues[1].put(batch_of(rows((2, 1, 4), (3, -1, 4), ets=30), TWO, True))
    for queue in queues:
        queue.promise(19)
    while fold.step(1000):
        pass
    assert fold.queue.messages == []
    for queue in queues:
        queue.promise(50)
    while fold.step(1000):
        pass
    assert fold.queue.messages == [20]


def test_nothing_is_told_to_have_left_before_all_pairs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs that are withdrawn at 3 would have left at 20; in a later chunk some come at 10 and do."""
    monkeypatch.setattr(change_join, "CHUNK_ROWS", 2)
    queues = Queue(), Queue()
    fold = Fold(join_of(queues, (0,), types=TWO, messages=True))
    queues[0].put(batch_of(rows(*[(1, 1, 4)] * 3, ets=20), TWO, True))
    queues[1].put(batch_of(rows((2, 1, 4), (3, -1, 4), (10, 1, 4), ets=30), TWO, True))
    for queue in queues:
        queue.promise(50)
    while fold.step(1000):
        is_all = len(fold.read()) == 9
        assert is_all or not fold.queue.messages, "who is told before keeps the pairs of 10"
    fold.check_order()
    assert [(row.ts, row.sign) for row in fold.read()] == [(2, 1)] * 3 + [(3, -1)] * 3 + [(10, 1)] * 3
    assert fold.queue.messages == [20]


@pytest.mark.parametrize(("kind", "given_"), [("inner", [(1, 1, 2)]), ("left", [(0, 1, None), (1, 1, 2)])])
def test_a_residual_that_fails_gives_the_pairs_before_it(kind: JoinKind, given_: list[Any]) -> None:
    """A row of 0 comes at 2: nothing of that instant is known."""
    ten = Literal(SqlType.BIGINT, 10)
    divided = Call(SqlType.BIGINT, "integer_divide", (ten, Column(SqlType.BIGINT, 1)))
    residual = Call(SqlType.BOOLEAN, "less", (divided, ten))
    queues = Queue(), Queue()
    fold = Fold(join_of(queues, (), kind, types=TWO, residual=residual))
    left = [Change(ts, 1, FOREVER, (ts, value)) for ts, value in ((0, 1), (1, 2), (2, 0), (3, 2))]
    queues[0].put(batch_of(left, TWO, True))
    queues[1].put(batch_of([Change(0, 1, FOREVER, (2, 2))], TWO, True))
    for queue in queues:
        queue.promise(9)
    with pytest.raises(DataError):
        fold.step(1000)
    rows_ = [row for batch in fold.queue.batches for row in rows_of(batch)]
    assert [(row.ts, row.sign, row.values[2]) for row in rows_] == given_


def test_state_is_bounded_by_what_is_alive() -> None:
    """One row stays for ever, others leave in no order."""
    queues = Queue(), Queue()
    operator = join_of(queues, (0,), "left", types=TWO)
    fold = Fold(operator)
    live: list[Change] = []
    for start in range(0, 60_000, 2000):
        batch = [Change(start, -1, FOREVER, row.values) for row in live[1:][::-1]]
        live = live[:1] + [Change(start, 1, FOREVER, (n % 100, n)) for n in range(start, start + 2000)]
        queues[0].put(batch_of(batch + live[-2000:], TWO, True))
        for queue in queues:
            queue.promise(start)
        while operator.step(1000):
            pass
        fold.queue.clear()
    operator._check()
    assert operator.state_rows == len(live)
    assert operator.state_bytes < 2_500_000


def window_rows(count: int, seed: int) -> list[Change]:
    """A stream in a window of 300, some rows of which are withdrawn early."""
    dice = random.Random(seed)
    made: list[Change] = []
    live: list[Change] = []
    for ts in range(count):
        if live and dice.random() < 0.1:
            row = live.pop(dice.randrange(len(live)))
            if row.ets > ts:
                made.append(Change(ts, -1, row.ets, row.values))
        live = [*live[-300:], Change(ts, 1, ts + 300, (dice.randrange(60), ts % 7))]
        made.append(live[-1])
    return made


def settle(operators: Sequence[Any]) -> None:
    """Everybody in turn until nobody has anything to do."""
    while sum(operator.step(500) for operator in operators):
        pass


def drive(operators: Sequence[Any], sources: Sequence[tuple[Queue, Sequence[Change]]], end: int) -> None:
    """Batches of 700 rows."""
    sizes = [len(rows_) for _, rows_ in sources]
    for start in range(0, max(sizes), 700):
        for queue, rows_ in sources:
            part = rows_[start : start + 700]
            if part:
                queue.put(batch_of(part, TWO, True))
                queue.promise(part[-1].ts)
        settle(operators)
    for queue, _ in sources:
        queue.promise(end)
        queue.close()
    settle(operators)


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_long_run_by_either_approach(kind: JoinKind) -> None:
    """Ends in the rows, or withdrawals made of them by Expire: the join of the windows now and then."""
    lefts, rights = window_rows(2500, 1), window_rows(2500, 2)
    folds = []
    for expires in (False, True) if kind == "inner" else (True,):
        queues = Queue(), Queue()
        operator = join_of(queues, (0,), kind, types=TWO)
        operators: list[Any] = [Fold(operator)]
        sources: list[Queue] = list(queues)
        if expires:
            sources = [Queue(), Queue()]
            for source, queue in zip(sources, queues, strict=True):
                expire = Expire(ExpireNode(SourceNode("s", TWO)), source, TWO, "expire", "promises")
                expire.output.queues.append(queue)
                operators.append(expire)
        drive(operators, list(zip(sources, (lefts, rights), strict=True)), 3500)
        assert operator.state_rows == 0
        folds.append(operators[0])
    for ts in range(50, 2900, 350):
        expected = joined(kind, alive_now(lefts, ts), alive_now(rights, ts), (0,), None, 2)
        for fold in folds:
            assert fold.at(ts) == expected
    for fold in folds:
        fold.check_order()


def alive_now(changes_: list[Change], ts: int) -> list[Row]:
    """As `alive`, for many rows: what entered less what left."""
    there: Counter[Row] = Counter()
    for row in changes_:
        if row.ts <= ts < row.ets:
            there[row.values] += row.sign
    return list(there.elements())
