"""Which rows of a push are late, and which are too far ahead to be believed."""

from __future__ import annotations

from numpy.typing import NDArray

from penstock.engine.kernels.base.jit import kernel

TAKEN, LATE, AHEAD = 0, 1, 2


@kernel
def judge_rows(
    ts: NDArray,
    verdicts: NDArray,
    latest: int,
    has_rows: bool,
    watermark: int,
    slack: int,
    limit: int,
    needed: int,
    run: int,
    run_latest: int,
    stop: bool,
) -> tuple[int, int, int, int]:
    """Say of each row whether it is taken, late or ahead, by the rows before it.

    ts: int64; verdicts: uint8, as long, written; latest: the greatest time taken so far, if there are rows;
    run, run_latest: how many rows ahead came last in a row that agree, and the greatest time of these.
    stop: end at the first row that is not taken. Returns how many rows were judged, the run then, and how
    often one was long enough to be believed.
    """
    jumps = 0
    for row in range(len(ts)):
        time = ts[row]
        if time < watermark:
            verdicts[row] = LATE
            if stop:
                return row + 1, run, run_latest, jumps
            continue
        if has_rows and time - max(latest, watermark) > limit:
            if run > 0 and run_latest - slack <= time <= run_latest + limit:
                run += 1
                run_latest = max(run_latest, time)
            else:
                run = 1
                run_latest = time
            if run < needed:
                verdicts[row] = AHEAD
                if stop:
                    return row + 1, run, run_latest, jumps
                continue
            jumps += 1
        verdicts[row] = TAKEN
        latest = max(latest, time) if has_rows else time
        has_rows = True
        watermark = max(watermark, latest - slack)
        run = 0
    return len(ts), run, run_latest, jumps
