"""What an index relies on before its kernel, which checks nothing, reads by row number."""

from __future__ import annotations

from penstock.engine.kernels.base.cursor import PROBER, RESUME

from .index import Probes


def check_probes(probes: Probes, tail: int, end: int, inserted: int) -> None:
    """Assert that the probers see no row that is gone, not there yet, or to be hidden again.

    Keys are there of the rows [tail, end). Rows below `inserted` are in the index, so the first prober must
    be allowed to see all of them.
    """
    assert len(probes.row_from) == len(probes.key_low), "where each prober begins"
    assert probes.end <= end, f"expected keys of rows below {probes.end}, found {end}"
    if len(probes.key_low):
        oldest, newest = int(probes.row_from.min()), int(probes.row_until[-1])
        assert oldest >= tail, f"expected rows from {oldest} on, found those below {tail} purged"
        assert newest <= end, f"expected keys of rows below {newest}, found {end}"
        if not (probes.cursor[PROBER] or probes.cursor[RESUME] or probes.one_by_one):
            first = int(probes.row_until[0])
            assert first >= inserted, f"expected a prober of rows below {inserted}, found {first}"
