"""Pictures of the figures of the thesis on hopping windows, from what was estimated and measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .figures import plotter, tidy

if TYPE_CHECKING:
    from .hopping_modes import Point
    from .hopping_plans import Found
    from .hopping_trials import Cost

COLOURS = {
    "DIDO": "#1b6ca8", "CIDO": "#4aa564", "DICO": "#e08a1e", "CICO": "#b5395b", "auto": "#222222",
}  # fmt: skip
MARKERS = {"DIDO": "o", "CIDO": "s", "DICO": "^", "CICO": "D"}
ROWS = {"DELTA": ("DIDO", "CIDO"), "COMPLETE": ("DICO", "CICO")}
SERIES = ("#b5395b", "#1b6ca8", "#222222")
DASHED = (0, (4, 2))
RING = {"linestyle": "none", "marker": "o", "markersize": 11, "markerfacecolor": "none", "color": "#222222"}

Value = Callable[["Cost"], float]


def estimated(cost: Cost) -> float:
    return 1e3 * cost.estimated


def measured(cost: Cost) -> float:
    return 1e3 * cost.measured


SIDES: tuple[tuple[str, Value], ...] = (("estimated", estimated), ("measured", measured))


def draw_modes(points: Sequence[Point], title: str, window_s: float, path: Path) -> None:
    """Figures 7.1 and 7.2: what is emitted by row, the model beside the measurement."""
    figure, axes = plotter().subplots(2, 2, figsize=(11, 8), sharex=True, sharey="row", layout="constrained")
    ratios = [100 * point.at for point in points]
    for row, (emit, modes) in zip(axes, ROWS.items(), strict=True):
        for axis, (name, value) in zip(row, SIDES, strict=True):
            for mode in modes:
                axis.plot(
                    ratios, [value(point.costs[mode]) for point in points], color=COLOURS[mode],
                    marker=MARKERS[mode], markersize=5, linewidth=1.6, label=mode,
                )  # fmt: skip
            axis.plot(
                ratios, [value(point.costs[f"auto, {emit}"]) for point in points], label="assigned", **RING
            )
            axis.set_title(f"{name}, EMIT {emit}", fontsize=11)
            logarithmic(axis, ratios)
            axis.legend(frameon=False, fontsize=9.5, loc="upper left")
        row[0].set_ylabel("processor time per hop (ms)")
    for axis in axes[1]:
        axis.set_xlabel("hop / window (%)")
    finish(figure, axes.flat, f"{title} in four modes, windows of {window_s:g} s, 1,000 rows/s each", path)


def logarithmic(axis: Any, ratios: Sequence[float]) -> None:
    """Both scales, with plain numbers."""
    from matplotlib import ticker

    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(ratios, [f"{ratio:g}" if ratio != 80 else "" for ratio in ratios])  # 100 is next to it
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(ticker.NullFormatter())


def draw_windows(points: Sequence[Point], hop_s: float, rate: float, path: Path) -> None:
    """Figure 7.3: the assigned plan as windows grow."""
    figure, axes = plotter().subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
    for axis, (name, value) in zip(axes, SIDES, strict=True):
        draw_series(axis, points, value)
        axis.set_title(name, fontsize=11)
    axes[0].set_ylabel("processor time per hop (ms)")
    legend_below(figure, axes[0])
    title = f"Figure 7.3: a join above a difference, {rate:g} rows/s each, hop {hop_s:g} s, EMIT DELTA"
    finish(figure, axes, title, path)


def draw_shapes(
    shapes: Sequence[Point], steps: Sequence[Point], hop_s: float, rate: float, path: Path
) -> None:
    """Figures 7.5 and 7.6, measured; dashed: what the model says."""
    figure, axes = plotter().subplots(1, 2, figsize=(11, 5), layout="constrained")
    for axis, points, title in (
        (axes[0], shapes, "Figure 7.5: the difference above the joins, and below"),
        (axes[1], steps, "Figure 7.6: all together"),
    ):
        draw_series(axis, points, measured)
        draw_series(axis, points, estimated, linestyle=DASHED, linewidth=1, marker="none", label="_")
        axis.set_title(title, fontsize=11)
        axis.set_ylabel("processor time per hop (ms)")
        axis.legend(frameon=False, fontsize=9.5, loc="upper left")
    title = (
        f"(A join C) minus (B join C), {rate:g} rows/s each, hop {hop_s:g} s, EMIT DELTA; dashed: the model"
    )
    finish(figure, axes, title, path)


def draw_series(axis: Any, points: Sequence[Point], value: Value, **more: Any) -> None:
    """A line for each way, over windows."""
    windows = [point.at for point in points]
    for name, colour in zip(points[0].costs, SERIES, strict=False):
        style = {"color": colour, "marker": "o", "markersize": 5, "linewidth": 1.6, "label": name}
        if name == "assigned":
            style |= RING
        axis.plot(windows, [value(point.costs[name]) for point in points], **(style | more))
    top = max(side(cost) for point in points for cost in point.costs.values() for _, side in SIDES)
    axis.set_xlabel("window (s)")
    axis.set_xticks(windows)
    axis.set_ylim(0, 1.05 * top)


def draw_searches(found: Mapping[str, Found], plans: int, path: Path) -> None:
    """Figure 7.4: how many plans are as cheap as the cheapest."""
    figure, axis = plotter().subplots(figsize=(7, 4.2), layout="constrained")
    shares = [100 * one.same for one in found.values()]
    bars = axis.bar(range(len(found)), shares, 0.55, color=SERIES[1])
    axis.bar_label(bars, [f"{share:.1f} %" for share in shares], padding=3, fontsize=10.5)
    names = [f"{name}\n(at worst {one.worst:.3g} times the cost)" for name, one in found.items()]
    axis.set_xticks(range(len(found)), names)
    axis.set_ylim(0, 110)
    axis.set_ylabel("plans with the exhaustive optimum (%)")
    finish(figure, [axis], f"Figure 7.4: {plans:,} random plans of fewer than 8 operators", path)


def legend_below(figure: Any, source: Any) -> None:
    handles, labels = source.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=len(labels), frameon=False, fontsize=10)


def finish(figure: Any, axes: Any, title: str, path: Path) -> None:
    for axis in axes:
        tidy(axis)
    figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=140)
    plotter().close(figure)
