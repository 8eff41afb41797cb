"""Pictures of the window-join paper's figures, from what `mix` estimated and measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .mix import COMBINATIONS, Point

COLOURS = {
    "HH": "#1b6ca8", "HT": "#4aa564", "TH": "#8bc34a", "TT": "#2e5e3e",
    "HN": "#e08a1e", "NH": "#f2b84b", "TN": "#b5395b", "NT": "#e0809b",
}  # fmt: skip
GREY = "#555555"
ENDS = 0.03  # the share of the range in which the scan can win, shown enlarged


def draw_mix(points: list[Point], weights_of: str, path: Path) -> None:
    """Figures 2 and 3: estimated and measured cost over the mix of rates, and the left end enlarged."""
    pyplot = plotter()
    size = points[0].setting
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8.2), sharey="row", layout="constrained")
    panels: list[tuple[str, Callable[[Point], dict[str, float]]]] = [
        ("estimated", lambda point: point.estimated),
        ("measured", lambda point: point.measured),
    ]
    near = [point for point in points if point.setting.share_a <= ENDS]
    for column, (title, costs) in enumerate(panels):
        draw_lines(axes[0, column], points, costs)
        axes[0, column].set_title(title, fontsize=12)
        axes[0, column].set_xlim(0, 100)
        draw_lines(axes[1, column], near, costs)
        axes[1, column].set_title(f"{title}, stream A slow (up to {ENDS:.0%})", fontsize=12)
        axes[1, column].set_xlim(0, 100 * ENDS)
    # The panels of a row share their scale. Enlarged, scans of the slow stream's window are far off it.
    shown = [name for name in COMBINATIONS if not name.startswith("N")]
    axes[0, 0].set_ylim(0, 1.05 * highest(points, list(COMBINATIONS)))
    axes[1, 0].set_ylim(0, 1.05 * highest(near, shown))
    for axis in axes[:, 0]:
        axis.set_ylabel("processor time per input row (µs)")
    for axis in axes[1]:
        axis.set_xlabel("share of input rows on stream A (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncol=8, frameon=False, fontsize=10,
        title="index on window A, then on window B:  H hash   T T-tree   N none (scan)",
    )  # fmt: skip
    figure.suptitle(
        f"Eight index combinations, windows of {size.rows_a:,} and {size.rows_b:,} rows\n{weights_of}",
        fontsize=12,
    )
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def highest(points: list[Point], names: list[str]) -> float:
    """The greatest cost of these combinations, estimated or measured, in microseconds."""
    return 1e6 * max(
        costs[name] for point in points for costs in (point.estimated, point.measured) for name in names
    )


def draw_lines(axis: Any, points: list[Point], costs: Callable[[Point], dict[str, float]]) -> None:
    shares = [100 * point.setting.share_a for point in points]
    for name in COMBINATIONS:
        dashed = (0, (4, 1.5)) if "N" in name else "-"
        axis.plot(
            shares, [1e6 * costs(point)[name] for point in points],
            color=COLOURS[name], linestyle=dashed, marker="o", markersize=3, linewidth=1.6, label=name,
        )  # fmt: skip
    tidy(axis)


def draw_table(points: list[Point], path: Path) -> None:
    """Figure 4 and Table 3: three settings, each combination estimated and measured."""
    pyplot = plotter()
    from matplotlib import ticker

    figure, axes = pyplot.subplots(1, len(points), figsize=(13, 4.6), sharey=True, layout="constrained")
    for axis, point in zip(axes, points, strict=True):
        places = range(len(COMBINATIONS))
        for name, place in zip(COMBINATIONS, places, strict=True):
            axis.bar(place - 0.2, 1e6 * point.estimated[name], 0.38, color=COLOURS[name], alpha=0.45)
            axis.bar(place + 0.2, 1e6 * point.measured[name], 0.38, color=COLOURS[name])
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_xticks(list(places), COMBINATIONS)
        for label in axis.get_xticklabels():
            label.set_fontweight("bold" if label.get_text() == point.winner else "normal")
        setting = point.setting
        axis.set_title(
            f"A {setting.rows_a:,} rows, B {setting.rows_b:,} rows, {setting.share_a:.1%} of input on A\n"
            f"expected {point.expected_winner}, measured {point.winner}",
            fontsize=10.5,
        )
        tidy(axis)
    axes[0].set_ylabel("processor time per input row (µs)")
    figure.suptitle(
        "Each pair of bars: left estimated, right measured; the measured winner is bold", fontsize=11
    )
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def tidy(axis: Any) -> None:
    axis.grid(axis="y", color="#dddddd", linewidth=0.7)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(colors=GREY)


def plotter() -> Any:
    """pyplot, drawing into files only."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
