"""Pictures of the incremental-evaluation paper's figures, from what `expiry_figures` measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .figures import GREY, plotter, tidy

if TYPE_CHECKING:
    from .expiry_figures import Point

COLOURS = {
    "auto": "#1b6ca8", "ita": "#e08a1e", "nta": "#b5395b", "time-message": "#4aa564", "piggyback": "#7b5ea7",
}  # fmt: skip
MARKERS = {"auto": "o", "ita": "s", "nta": "^", "time-message": "D", "piggyback": "v"}
LABELS = {
    "auto": "auto (with every promise)", "ita": "ITA (input-triggered)", "nta": "NTA (negative tuples)",
    "time-message": "time-message", "piggyback": "piggyback",
}  # fmt: skip
DASHED = (0, (4, 2))


def plot(axis: Any, x: Sequence[float], y: Sequence[float], expiry: str, **more: Any) -> None:
    """A line in the approach's colour."""
    style = {
        "color": COLOURS[expiry], "marker": MARKERS[expiry], "markersize": 5, "linewidth": 1.6,
        "label": LABELS[expiry],
    }  # fmt: skip
    axis.plot(x, y, **(style | more))


def finish(figure: Any, axes: Sequence[Any], title: str, path: Path, source: Any = None) -> None:
    """Legend below, title above, into the file."""
    for axis in axes:
        tidy(axis)
    handles, labels = (source or axes[0]).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=3, frameon=False, fontsize=10)
    figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=140)
    plotter().close(figure)


def from_zero(axis: Any) -> None:
    """Room for the marks at both ends."""
    top = axis.get_ylim()[1]
    axis.set_ylim(-0.02 * top, 1.03 * top)


def draw_delays(found: dict[str, list[Point]], rate: float, window_s: float, path: Path) -> None:
    """Figure 7: where qualifying rows are, average delay, greatest delay."""
    figure, (rows, average, most) = plotter().subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    draw_distributions(rows, window_s)
    dashes = {"bunched": "-", "scattered": DASHED}
    for name, points in found.items():
        shares = [point.at for point in points]
        for axis, what in ((average, "average_us"), (most, "max_us")):
            ita = [point.trials["ita"].stream_delay[what] / 1e6 for point in points]
            plot(axis, shares, ita, "ita", linestyle=dashes[name], label=f"ITA, {name}")
    points = next(iter(found.values()))
    shares = [point.at for point in points]
    for axis, what in ((average, "average_us"), (most, "max_us")):
        others = [
            max(
                trial.stream_delay[what] / 1e6
                for same in found.values()
                for expiry, trial in same[place].trials.items()
                if expiry != "ita"
            )
            for place in range(len(points))
        ]
        label = "NTA, time-message, piggyback, auto: either distribution"
        plot(axis, shares, others, "auto", label=label)
        axis.set_xlabel("selectivity: share of rows that pass the join")
        from_zero(axis)
    average.set_title("(b) average output delay", fontsize=11)
    average.set_ylabel("seconds of stream time")
    most.set_title("(c) greatest output delay", fontsize=11)
    most.set_ylabel("seconds of stream time")
    title = (
        "Figure 7: delay of COUNT over a stream joined with a table (Q1)\n"
        f"{rate:g} rows/s, window {window_s:g} s, one row per push"
    )
    finish(figure, (rows, average, most), title, path, average)


def draw_distributions(axis: Any, window_s: float) -> None:
    """Figure 7a: rows that qualify, at a selectivity of 0.3."""
    bars = {1.0: [(start, 0.6 * window_s) for start in (0.0, 2 * window_s, 4 * window_s)]}
    marks = [window_s / 9 * place for place in range(54)]
    bars[0.0] = [(start, 0.3 * window_s / 9) for start in marks]
    for height, spans in bars.items():
        axis.broken_barh(spans, (height - 0.2, 0.4), facecolors=COLOURS["ita"])
    axis.set_yticks([1.0, 0.0], ["bunched", "scattered"])
    axis.set_ylim(-0.6, 1.6)
    axis.set_xlim(0, 6 * window_s)
    axis.set_xticks([window_s * place for place in range(0, 7, 2)])
    axis.set_xlabel("seconds of stream time")
    axis.set_title("(a) rows that pass, at 0.3", fontsize=11)


def draw_capacity(
    few: list[Point], many: list[Point], alone: tuple[str, str], rate: float, window_s: float, step_s: float,
    path: Path,
) -> None:  # fmt: skip
    """Figure 8: what leaves the join besides pairs, and the rows it can take."""
    from .expiry_figures import capacity, overhead

    figure, (left, middle, right) = plotter().subplots(1, 3, figsize=(13, 5), layout="constrained")
    for expiry in few[0].trials:
        plot(left, [p.at for p in few], [overhead(p, expiry) for p in few], expiry)
        plot(middle, [p.at for p in many], [capacity(p, expiry) / 1e6 for p in many], expiry)
    for name, expiry, words in zip(
        alone,
        ("time-message", "nta"),
        ("rows leave by themselves,\nmessages sent", "rows withdrawn by −1"),
        strict=True,
    ):
        plot(right, [p.at for p in many], [p.alone[name] / 1e6 for p in many], expiry, label=words)
    left.set_title("(a) besides new pairs", fontsize=11)
    left.set_ylabel("negatives or messages per pair")
    middle.set_title("(b) join operator as planned", fontsize=11)
    right.set_title("(b) the same operator both ways", fontsize=11)
    for axis in (middle, right):
        axis.set_ylabel("million input rows per second of its time")
    right.legend(frameon=False, fontsize=9, loc="lower right")
    for axis in (left, middle, right):
        axis.set_xlabel("join multiplicity")
        axis.set_xticks([p.at for p in few])
        from_zero(axis)
    title = (
        "Figure 8: the join below MAX of two streams (Q2), as many pairs as rows at every multiplicity\n"
        f"{rate:g} rows/s each, window {window_s:g} s; (a) pushes of 20 ms, (b) pushes of {step_s:g} s"
    )
    finish(figure, (left, middle, right), title, path)


def draw_piggyback(
    points: list[Point],
    ratios: dict[str, list[float]],
    rate: float,
    window_s: float,
    step_us: int,
    path: Path,
) -> None:
    """Figure 9: delay in processor time, and negatives per positive."""
    figure, (left, right) = plotter().subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    shares = [100 * point.at for point in points]
    for expiry in points[0].trials:
        delays = [point.trials[expiry].processing_delay["average_us"] for point in points]
        plot(left, shares, delays, expiry)
    for expiry, values in ratios.items():
        plot(right, shares, values, expiry)
    left.set_title("(a) average output delay", fontsize=11)
    left.set_ylabel("processor time from push to result (µs)")
    right.set_title("(b) read by MAX besides pairs", fontsize=11)
    right.set_ylabel("negatives or messages per pair")
    for axis in (left, right):
        axis.set_xlabel("join selectivity (% of all pairs of rows)")
        from_zero(axis)
    title = (
        "Figure 9: piggybacking, MAX and COUNT over a join of two streams (Q2)\n"
        f"{rate:g} rows/s each, window {window_s:g} s, pushes of {step_us / 1e3:g} ms"
    )
    finish(figure, (left, right), title, path)


def saturated(offered: float, per_s: float, cpu_s: float) -> float:
    """What comes out per second when `offered` needs `cpu_s` seconds of each second."""
    return min(offered, per_s / cpu_s)


def draw_throughput(
    points: list[Point], approaches: Sequence[str], seconds: float, window_s: float, selectivity: float,
    path: Path,
) -> None:  # fmt: skip
    """Figure 10: pairs per second by offered rate, times so much faster that a processor is at its limit."""
    figure, (left, right) = plotter().subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    rates = [point.at for point in points]
    middle = points[len(points) // 2]  # from there on NTA cannot follow
    faster = round_down(seconds / middle.trials["nta"].cpu_s)
    offered = [faster * point.trials["auto"].entered / seconds / 1e6 for point in points]
    right.plot(
        [faster * rate / 1e3 for rate in rates], offered, color=GREY, linestyle=DASHED, linewidth=1,
        label="offered",
    )  # fmt: skip
    for expiry in approaches:
        trials = [point.trials[expiry] for point in points]
        plot(left, rates, [trial.rows / trial.cpu_s / 1e3 for trial in trials], expiry)
        out = [
            saturated(offer, point.trials["auto"].entered / 1e6, point.trials[expiry].cpu_s)
            for offer, point in zip(offered, points, strict=True)
        ]
        plot(right, [faster * rate / 1e3 for rate in rates], out, expiry)
    left.set_title("input that one processor can sustain", fontsize=11)
    left.set_ylabel("thousand input rows per second of processor time")
    left.set_xlabel("rows/s of each stream, at the paper's speed")
    right.set_title(f"output, all times divided by {faster:,}", fontsize=11)
    right.set_ylabel("million pairs into MAX per second")
    right.set_xlabel("offered input rate of each stream (thousand rows/s)")
    for axis in (left, right):
        from_zero(axis)
    title = (
        "Figure 10: throughput of MAX over a join of two streams (Q2)\n"
        f"window {window_s:g} s, selectivity {selectivity:g}, pushes of 1 s; right: min(offered, capacity)"
    )
    finish(figure, (left, right), title, path, right)


def round_down(value: float) -> int:
    """To one digit."""
    power = 10 ** max(0, len(str(int(value))) - 1)
    return max(1, int(value) // power * power)
