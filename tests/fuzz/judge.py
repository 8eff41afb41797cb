"""What queries have given against what DuckDB says of the windows, at some of the instants that matter."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from oracle import Oracle, last_hop, longest_window, plain
from test_changes_oracle import same

from .ask import TABLE_TIME
from .drive import EVER, Asked, Disagreement, Drive, Span, folded
from .script import TABLE


class Judge:
    """instants: how many of them are looked at, per query and span of windows, at the end."""

    def __init__(self, seed: int, instants: int = 4) -> None:
        self.dice = random.Random(seed)
        self.instants = instants
        self.looked = 0

    def __call__(self, drive: Drive, one: Asked, is_over: bool) -> None:
        drive.look(one)
        if one.like is not None and is_over and one.like in drive.asked.values():
            self.alike(drive, one, one.like)
        if one.start.counting or one.start.fails:
            return
        times = drive.times(one)
        if not times:
            return
        if not is_over and drive.expiry(one) == "ita":
            return  # it hears of nothing but rows
        last = drive.known(one) if not is_over else self.last(drive, one)
        count = self.instants if is_over else 1
        for span in one.spans:
            first, until = max(span.since, min(times)), min(span.until, last)
            if first > until:
                continue
            oracle = Oracle(drive.tables(), span.references)
            oracle._con.register("t", TABLE)
            if one.start.emit == "INSERTS":
                self.inserts(one, oracle, span, first, until, count)
            elif one.start.hops:
                self.hops(one, oracle, range(*self.boundaries(one, first, until)), count)
            else:
                self.changes(one, oracle, list(self.moments(span, first, until)), count)
        if is_over and one.start.hops and not one.alters:
            after = [ts for ts, _, _ in one.given if ts > last]
            if after:
                raise Disagreement(f"{one.name}: an answer at {after[0]}, after {last}")

    def last(self, drive: Drive, one: Asked) -> int:
        """The last time of which something is known at the end."""
        assert drive.closed is not None
        times, now = drive.times(one), drive.passed[one.name]
        if not one.start.hops:
            return drive.now(one)
        drains = drive.closed.drain and not one.alters
        longest = longest_window(one.references) if drains else 0
        end = last_hop([ts + longest for ts in times], now, one.start.hop, one.start.origin)
        if one.alters and one.next is not None:
            return min(end, now - 1)
        return end

    # -- one kind after the other -------------------------------------------------------------------

    def changes(self, one: Asked, oracle: Oracle, moments: list[int], count: int) -> None:
        picked = moments[-1:] if count == 1 else self.dice.sample(moments, min(count, len(moments)))
        for instant in picked:
            self.compare(one, instant, folded(one.given, instant), self.ask(oracle, one, instant))

    def hops(self, one: Asked, oracle: Oracle, boundaries: range, count: int) -> None:
        picked = boundaries[-1:] if count == 1 else self.dice.sample(boundaries, min(count, len(boundaries)))
        for boundary in picked:
            if one.start.emit == "DELTA":
                found = folded(one.given, boundary)
            else:
                found = Counter(row for ts, _, row in one.given if ts == boundary)
            self.compare(one, boundary, found, self.ask(oracle, one, boundary))

    def inserts(self, one: Asked, oracle: Oracle, span: Span, first: int, last: int, count: int) -> None:
        life = one.start.tree.drawn.life
        if life is not None:
            text = f"SELECT ts, k, v FROM ({life}) AS lived WHERE ts > {TABLE_TIME}"
            stands = f"SELECT count(*) FROM ({life}) AS lived WHERE ts = {TABLE_TIME}"
            (standing,) = oracle._con.execute(stands).fetchone() or (0,)
            first += bool(standing)  # with the first time that is heard of
            rows = [(ts, same(plain(row))) for ts, *row in oracle._con.execute(text).fetchall()]
            wanted = Counter((ts, row) for ts, row in rows if first <= ts <= last)
            found = Counter((ts, row) for ts, _, row in one.given if first <= ts <= last)
            self.looked += 1
            self.compare(one, last, found, wanted)
            return
        moments = [ts for ts in self.moments(span, first, last) if ts > first]
        for instant in self.dice.sample(moments, min(count, len(moments))):
            before, after = (self.ask(oracle, one, ts) for ts in (instant - 1, instant))
            found = Counter(row for ts, _, row in one.given if ts == instant)
            # an instant that comes in several pushes may give more
            if missing := after - before - found:
                self.compare(one, instant, found, found + missing)

    def alike(self, drive: Drive, one: Asked, like: Asked) -> None:
        """Counts, and changes of a query of which only those that enter are given."""
        if one.start.counting:
            if not one.alters and not one.is_late and one.count != like.count:
                raise Disagreement(f"{one.name}: counted {one.count}, given {like.count}")
            return
        if one.alters or like.alters:
            return
        since = max(one.spans[-1].since, like.spans[-1].since)
        if one.is_late and "FROM t" in one.start.tree.drawn.penstock:
            # rows of a table are there before all time: changes begin with what stands, at the time that
            # streams have come to, and those that enter with the first time that is heard of
            since = max([since, *(each.given[0][0] + 1 for each in (one, like) if each.given)])
        found = Counter((ts, row) for ts, _, row in like.given if ts >= since)
        wanted = Counter((ts, row) for ts, diff, row in one.given if ts >= since and diff > 0)
        self.compare(like, since, found, wanted)

    # -- help ---------------------------------------------------------------------------------------

    def ask(self, oracle: Oracle, one: Asked, instant: int) -> Counter[Any]:
        self.looked += 1
        answer = oracle.answer(one.start.tree.drawn.duck, instant)
        found: Counter[Any] = Counter()
        for row, count in answer.items():
            found[same(row)] += count
        return found

    def moments(self, span: Span, first: int, last: int) -> Iterator[int]:
        """Times at which something enters or leaves, and the ends of the span."""
        lives = {ts for one in span.references for pair in one.lifetimes.values() for ts in pair}
        yield from sorted({ts for ts in (*lives, first, last) if first <= ts <= last})

    def boundaries(self, one: Asked, first: int, last: int) -> tuple[int, int, int]:
        hop, origin = one.start.hop, one.start.origin
        return first + (origin - first) % hop, last + 1, hop

    def compare(self, one: Asked, instant: int, found: Counter[Any], wanted: Counter[Any]) -> None:
        if found != wanted:
            raise Disagreement(
                f"{one.name} at {instant}: expected {short(wanted - found)} more and {short(found - wanted)} "
                f"less; spans {[(s.since, s.until, [r.penstock for r in s.references]) for s in one.spans]}"
            )


def short(rows: Counter[Any]) -> str:
    return str(dict(rows.most_common(4)))


__all__ = ["EVER", "Judge"]
