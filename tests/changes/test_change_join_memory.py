"""A join of answers that change keeps what its rows take, however many have come and gone."""

from __future__ import annotations

from work_of import plans_of

import penstock
from penstock.engine.changes.change_join import ChangeJoin

COUNTS = "(SELECT k, COUNT(*) AS n FROM {} [RANGE 50 us] GROUP BY k)"


def test_rows_that_have_gone_take_no_memory() -> None:
    """Of two counts by seven keys 40,000 rows come and all but fourteen go."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    query = engine.query(
        f"SELECT g.k, g.n, h.n AS m FROM {COUNTS.format('a')} AS g JOIN {COUNTS.format('b')} AS h "
        "ON g.k = h.k EMIT CHANGES"
    )
    parts = plans_of(engine._runtime)
    (join,) = (one for part in parts for one in part.own_operators if isinstance(one, ChangeJoin))
    taken = []
    for start in range(0, 10_000, 500):
        for stream in ("a", "b"):
            ts = range(start, start + 500)
            engine.push(stream, {"ts": list(ts), "k": [one % 7 for one in ts]})
        query.results()
        taken.append(join.state_bytes)
    assert join.state_rows == 14
    assert max(taken[10:]) <= max(taken[:10])
