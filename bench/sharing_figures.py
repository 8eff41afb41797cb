"""Figures 17, 18 and 19 of the State-Slice paper: rows in the states and service rate of each strategy.

Each figure comes twice: with the literal chain of sliced joins and nested loops, as in the paper, and with
the fused slices and indexes chosen by cost. Strategies that the engine does not take are left out.

Windows, selectivities and rates are those of the paper's tables 3 and 4, the rates times a factor, as rows
cost less here beside a turn of an operator. Queries are given their results, as in the paper.

Figure 19 has three chains: with a slice for each window; with the slices that the paper says it merged (for
even windows none); and with those that cost least here. By the paper's own formulas the first and the last of
its chains cannot both be cheapest: see test_sharing_cost.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .figures import GREY, plotter, tidy
from .outcome import Outcome, Target
from .sharing_trials import AS_MERGED, Setting, Trial, run_trials

COLOURS = {
    "pull-up": "#e08a1e", "push-down": "#4aa564", "chain": "#1b6ca8", "mem-opt": "#1b6ca8",
    AS_MERGED: "#8a63b8", "chain-cpu": "#b5395b", "cpu-opt": "#b5395b",
}  # fmt: skip
LABELS = {
    "pull-up": "selection pull-up", "push-down": "selection push-down", "chain": "state-slice chain, mem-opt",
    AS_MERGED: "cpu-opt, slices as in the paper", "chain-cpu": "cpu-opt, cheapest slices here",
    "mem-opt": "state-slice fused, mem-opt", "cpu-opt": "state-slice fused, cpu-opt",
}  # fmt: skip
MARKERS = {"pull-up": "s", "push-down": "^", AS_MERGED: "D"}
DASHED = (0, (4, 2))

WINDOW_SETS = {"mostly small": (5, 10, 30), "uniform": (10, 20, 30), "mostly large": (20, 25, 30)}
SELECTIONS = (0.2, 0.5, 0.8)
JOINS = (0.025, 0.1, 0.4)
USUAL_WINDOWS, USUAL_SELECTION, USUAL_JOIN = (10, 20, 30), 0.5, 0.1
LONGEST_S = 30
LEAST = Target("<=", 1)  # rows kept, against other ways: always least
HIGHEST = Target(">=", 1)  # service rate: always highest
CLEARLY = Target(">=", 1.1)  # where windows are skewed, merging pays
NEAR_BEST = Target(">=", 0.9)
MANY = f"No selections, join selectivity {JOINS[0]:g}"

Trials = dict[Setting, dict[str, Trial]]
Panel = tuple[str, list[Setting]]  # title, one setting for each rate


@dataclass(frozen=True, slots=True)
class Form:
    """How joins are run, and which strategies are compared: those of three queries, those of many."""

    name: str
    index: str
    trio: tuple[str, ...]
    many: tuple[str, ...]
    words: str


OTHERS = ("pull-up", "push-down")
FORMS = (
    Form("chain", "scan", (*OTHERS, "chain"), ("chain", AS_MERGED, "chain-cpu"), "nested loops"),
    Form("fused", "auto", (*OTHERS, "mem-opt"), ("mem-opt", "cpu-opt"), "indexes by cost"),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """The paper's rates, 20 to 80 rows per second, times `factor`; `seconds` of stream, `step_s` a push."""

    rates: tuple[float, ...]
    factor: float
    seconds: float
    step_s: float
    rounds: int
    numbers: tuple[int, ...] = (12, 24, 36)

    def over_rates(
        self,
        windows_s: Sequence[float],
        selection: float = USUAL_SELECTION,
        join: float = USUAL_JOIN,
        merged_s: Sequence[float] = (),
    ) -> list[Setting]:
        return [
            Setting(tuple(windows_s), selection, join, self.factor * rate, tuple(merged_s))
            for rate in self.rates
        ]

    def __str__(self) -> str:
        rates = "The paper's rates" if self.factor == 1 else f"{self.factor:g} times the paper's rates"
        best = f", best of {self.rounds} runs" if self.rounds > 1 else ""
        return f"{rates}, {self.seconds:g} s from empty windows, pushes of {self.step_s:g} s{best}"


def bench_figures(outcome: Outcome, scale: Scale, out: Path, forms: Sequence[Form] = FORMS) -> None:
    """Run the trials of all figures, each once, and draw them."""
    for form in forms:
        trio, many = list(form.trio), list(form.many)
        ending = "" if form.index == "scan" else f"-{form.name}"
        if trio:
            by_windows, by_selection, by_join = trio_panels(scale)
            trials = run_all(outcome, [*by_windows, *by_selection, *by_join], trio, form, scale)
            report_trio(outcome, trials, trio, form)
            names = f"sharing-fig17{ending}.png", f"sharing-fig18{ending}.png"
            draw([by_windows, by_selection], trials, MEMORY, caption("17", form, scale), out / names[0])
            draw([by_windows, by_join], trials, SERVICE, caption("18", form, scale), out / names[1])
            outcome.pictures += names
        if many:
            # The paper's own rates: merging saves what operators cost beside probing, which counts where
            # rows are few.
            slow = dataclasses.replace(scale, factor=1, rounds=2 * scale.rounds)
            rows = many_panels(slow)
            panels = [panel for row in rows for panel in row]
            trials = run_all(outcome, panels, many, form, slow, is_shown_before=True)
            report_many(outcome, rows, trials, many, form)
            name = f"sharing-fig19{ending}.png"
            draw(rows, trials, SERVICE, caption("19", form, slow), out / name)
            outcome.pictures.append(name)


def run_all(
    outcome: Outcome,
    panels: list[Panel],
    strategies: Sequence[str],
    form: Form,
    scale: Scale,
    is_shown_before: bool = False,
) -> Trials:
    """Every setting once; at the lowest rate the answers are held against those of separate joins too."""
    settings = list(dict.fromkeys(setting for _, group in panels for setting in group))
    lowest = min(setting.rate for setting in settings)
    fastest = max(settings, key=lambda setting: setting.rate)
    run_trials(fastest, strategies, form.index, LONGEST_S / 2, scale.step_s, 1)  # to warm up
    trials: Trials = {}
    for setting in settings:
        compared = [*strategies, "unshared"] if setting.rate == lowest else strategies
        found, tally, answers = run_trials(
            setting, compared, form.index, scale.seconds, scale.step_s, scale.rounds, is_shown_before
        )
        tally.compare(outcome, f"{form.name}, {setting}", answers)
        trials[setting] = {trial.strategy: trial for trial in found if trial.strategy in strategies}
    kept = outcome.data.setdefault("trials", [])
    kept += [
        dataclasses.asdict(trial) | {"form": form.name}
        for found in trials.values()
        for trial in found.values()
    ]
    return trials


# -- what is in the panels ----------------------------------------------------------------------------


def trio_panels(scale: Scale) -> tuple[list[Panel], list[Panel], list[Panel]]:
    """Over window sets, over selectivities of the selection, over those of the join."""
    by_windows = [
        (f"{name} windows {', '.join(map(str, sizes))} s", scale.over_rates(sizes))
        for name, sizes in WINDOW_SETS.items()
    ]
    by_selection = [
        (f"{share:.0%} of A selected", scale.over_rates(USUAL_WINDOWS, selection=share))
        for share in SELECTIONS
    ]
    by_join = [
        (f"join selectivity {share:g}", scale.over_rates(USUAL_WINDOWS, join=share)) for share in JOINS
    ]
    return by_windows, by_selection, by_join


SKEWED = {"mostly small": (10, 10, 10), "small and large": (6, 6, 24)}
"""Of 12 windows, how many are small, up to where, and from where on the others begin."""


def many_windows(distribution: str, number: int) -> list[float]:
    """The paper's windows for 12 queries; for more, the same stretches of time filled more densely."""
    if distribution == "uniform":
        return [LONGEST_S * place / number for place in range(1, number + 1)]
    small, until, begin = SKEWED[distribution]
    few = round(number * small / 12)
    many = number - few
    low = [until * place / few for place in range(1, few + 1)]
    return low + [begin + (LONGEST_S - begin) * place / many for place in range(1, many + 1)]


def merged_windows(distribution: str, number: int) -> list[float]:
    """Where the slices of the paper's chain for least processor time end (section 7.3): even windows as they
    are; the small ones merged, the others as they are; two slices, of all small and of all large ones."""
    windows = many_windows(distribution, number)
    if distribution == "uniform":
        return windows
    small = SKEWED[distribution][1]
    others = [LONGEST_S] if distribution == "small and large" else windows[windows.index(small) + 1 :]
    return [small, *others]


def many_panels(scale: Scale) -> list[list[Panel]]:
    """A row for each number of queries, a column for each distribution; no selections."""
    return [
        [
            (
                f"{number} queries, {name}",
                scale.over_rates(many_windows(name, number), 1, JOINS[0], merged_windows(name, number)),
            )
            for name in ("uniform", *SKEWED)
        ]
        for number in scale.numbers
    ]


def expected_state(setting: Setting, strategy: str) -> float | None:
    """Rows in the states by the paper's formulas, for the trio; None: it has none."""
    first, last = min(setting.windows_s), max(setting.windows_s)
    share, rate = setting.selection, setting.rate
    if strategy == "pull-up":
        return 2 * rate * last
    if strategy == "push-down":
        return rate * ((2 - share) * first + (1 + share) * last)
    if strategy in ("chain", "mem-opt"):
        return rate * (2 * first + (1 + share) * (last - first))
    return None


# -- lines of the report ------------------------------------------------------------------------------


def report_trio(outcome: Outcome, trials: Trials, strategies: Sequence[str], form: Form) -> None:
    """The last strategy against each of the others: mean over the settings, with the extremes."""
    group = f"figures 17 and 18, {form.name}, {form.words}"
    *others, ours = strategies
    kinds = (("state rows", MEMORY.value, LEAST, max), ("service rate", SERVICE.value, HIGHEST, min))
    for what, value, target, worst in kinds:
        for other in others:
            ratios = [value(found[ours]) / max(value(found[other]), 1e-9) for found in trials.values()]
            note = f"{min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} settings"
            outcome.add(group, f"{what}, {ours} / {other}", sum(ratios) / len(ratios), "x", note=note)
            if form.index == "scan":
                name = f"{what}, {ours} / {other}, worst setting"
                outcome.add(group, name, worst(ratios), "x", target)


def report_many(
    outcome: Outcome, rows: list[list[Panel]], trials: Trials, strategies: Sequence[str], form: Form
) -> None:
    """Merged slices against all slices, mean over the rates; and the cheapest ones against the best."""
    if len(strategies) < 2:
        return
    group = f"figure 19, {form.name}, {form.words}"
    mem, *merged = strategies

    def ratios(settings: list[Setting], ours: str, others: Sequence[str]) -> list[float]:
        rates = [{name: SERVICE.value(trial) for name, trial in trials[one].items()} for one in settings]
        return [each[ours] / max(each[other] for other in others) for each in rates]

    for title, settings in (panel for row in rows for panel in row):
        is_skewed = settings[0].merged_s != settings[0].windows_s
        for name in merged:
            found = ratios(settings, name, [mem])
            note = f"{min(found):.2f} to {max(found):.2f} over {len(found)} rates"
            target = CLEARLY if is_skewed and form.index == "scan" else None
            outcome.add(group, f"{title}: {name} / {mem}", sum(found) / len(found), "x", target, note)
    if len(merged) > 1:
        every = [setting for row in rows for _, settings in row for setting in settings]
        worst = min(ratios(every, merged[-1], strategies[:-1]))
        outcome.add(group, f"{merged[-1]} / best of the others, at worst", worst, "x", NEAR_BEST)


# -- drawing ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measure:
    """What is drawn upwards."""

    label: str
    value: Callable[[Trial], float]
    expected: Callable[[Setting, str], float | None]
    one_scale: bool  # for the panels of a row


MEMORY = Measure("rows in the states", lambda trial: trial.state_rows, expected_state, True)
SERVICE = Measure(
    "input rows per second\nof processor time", lambda trial: trial.service_rate, lambda *_: None, False
)


def caption(number: str, form: Form, scale: Scale) -> str:
    trio = "three queries, the second and third with a selection on A"
    windows = ", ".join(map(str, USUAL_WINDOWS))
    usual = (
        f"Unless it says otherwise: windows {windows} s, {USUAL_SELECTION:.0%} of A selected, "
        f"join selectivity {USUAL_JOIN:g}"
    )
    what, common = {
        "17": (f"Rows in the states, {trio}", usual),
        "18": (f"Service rate, {trio}", usual),
        "19": ("Service rate, slices for least memory and for least processor time", MANY),
    }[number]
    return f"{what}; {form.words}\n{common}\n{scale}"


def draw(rows: list[list[Panel]], trials: Trials, measure: Measure, title: str, path: Path) -> None:
    """A grid of panels over the input rate; dashed: the paper's formula."""
    pyplot = plotter()
    size = (11.5, 1.2 + 2.9 * len(rows))
    figure, axes = pyplot.subplots(
        len(rows),
        len(rows[0]),
        figsize=size,
        squeeze=False,
        sharex=True,
        sharey="row" if measure.one_scale else False,
        layout="constrained",
    )
    for line, row in zip(axes, rows, strict=True):
        for axis, (name, settings) in zip(line, row, strict=True):
            draw_panel(axis, [trials[setting] for setting in settings], measure)
            axis.set_title(name, fontsize=11)
        line[0].set_ylabel(measure.label)
    for axis in axes.flat:  # only now: it ends the fitting of the scale that panels may share
        axis.set_ylim(bottom=0)
    for axis in axes[-1]:
        axis.set_xlabel("input rate of each stream (rows/s)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=len(labels), frameon=False, fontsize=10)
    figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def draw_panel(axis: Any, found: list[dict[str, Trial]], measure: Measure) -> None:
    formula = None
    for strategy in found[0]:
        points = [one[strategy] for one in found]
        rates = [point.setting.rate for point in points]
        colour = COLOURS.get(strategy, GREY)
        formula = [measure.expected(point.setting, strategy) for point in points]
        if None not in formula:
            axis.plot(rates, formula, color=colour, linestyle=DASHED, linewidth=1, alpha=0.8)
        axis.plot(
            rates, [measure.value(point) for point in points], color=colour, linewidth=1.6,
            linestyle=DASHED if strategy == AS_MERGED else "-",
            marker=MARKERS.get(strategy, "o"), markersize=4, label=LABELS.get(strategy, strategy),
        )  # fmt: skip
    if formula and None not in formula:
        axis.plot([], [], color=GREY, linestyle=DASHED, linewidth=1, label="the paper's formula")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_xticks([one.setting.rate for one in (next(iter(each.values())) for each in found)])
    tidy(axis)
