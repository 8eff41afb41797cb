"""What one hop costs an operator of a hopping query, in each of its modes.

The formulas are those of the thesis on multi-mode hopping windows, section 5.2, with our operators in them.
What differs, and why:

- As many rows come as leave (the thesis's dp = dn), so its insert, probe and purge grow with one number and
  have one weight, per change; a change is a row that comes or one that leaves.
- A converting operator is the plain one and a conversion behind it: DICO folds changes into the answer kept,
  CIDO compares the answer with the one before. (The text swaps DICO and DIDO in places, and counts a
  conversion for the difference in DIDO, which has none.)
- A whole join links rows of a window by key slots found once, when the row came; only rows that are no
  window's have their keys hashed at every hop. It keeps one table and probes it, as section 5.2.1 has it.
- An aggregate right above a window combines panes: a row is looked at once, a hop costs each group a step.
- Whatever an operator does, running it takes some time at every hop, however few its rows.

Costs are seconds per hop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .modes import Form, Mode, writes
from .weights import Weights

FORMS: tuple[Form, Form] = ("delta", "complete")
BEHIND_WINDOW_JOIN = 3  # operators: pairs get their columns and their ends, and are withdrawn then

Costs = Mapping[Mode, float]


@dataclass(frozen=True, slots=True)
class Flow:
    """What an operator gives: rows of its answer at a boundary, and how much of that is new since the last.

    parts: what the answer is made of, each with the share of it that one hop replaces. A row stays if all
    its parts do. Parts have names, so that one that is read twice counts once, whatever the plan's shape.
    """

    rows: float
    parts: frozenset[tuple[object, float]]
    is_window: bool = False

    @property
    def changed(self) -> float:
        """The share of rows that are new since the last boundary."""
        return 1 - math.prod(1 - share for _, share in self.parts)

    @property
    def came(self) -> float:
        """Rows that are new, and as many that have gone."""
        return self.rows * self.changed

    @property
    def changes(self) -> float:
        return 2 * self.came

    def in_form(self, form: Form) -> float:
        """Rows that pass in a hop."""
        return self.changes if form == "delta" else self.rows


Parts = frozenset[tuple[object, float]]


def together(*groups: Parts) -> Parts:
    """Parts of several answers as those of one; what is in several counts once, as far as it changes most."""
    found: dict[object, float] = {}
    for name, share in (part for group in groups for part in group):
        found[name] = max(share, found.get(name, 0.0))
    return frozenset(found.items())


def touched(parts: Parts, share: float) -> Parts:
    """Parts of an answer of which only a share of the rows depends."""
    return frozenset((name, one * share) for name, one in parts)


class HoppingCosts:
    """The formulas, with the weights of a machine; only: the form that every operator has to read."""

    def __init__(self, weights: Weights, only: Form | None = None) -> None:
        self._w = weights
        self.only = only

    def window(self, flow: Flow) -> Costs:
        """A stream through its window: rows as they come, or the whole window, of which nothing is copied."""
        w = self._w
        return {
            "DIDO": w.hop_operator + flow.came * w.hop_window,
            "DICO": w.hop_operator + flow.came * w.hop_whole_window + flow.rows * w.hop_pass,
        }

    def table(self, rows: float) -> dict[Form, float]:
        """A table: it came before the first hop; whole, it is passed on at every one."""
        return {"delta": 0.0, "complete": self._w.hop_operator + rows * self._w.hop_pass}

    def join(self, left: Flow, right: Flow, met: float, out: Flow) -> Costs:
        """An inner join (5.2.1). met: pairs of rows with equal keys in the two answers.

        A pair that leaves at the next boundary is due in the order in which it came; others are kept by the
        time at which they leave, which costs more.
        """
        w = self._w
        windows = left.is_window and right.is_window
        row, pair = (w.hop_join_row, w.hop_join_pair) if windows else (w.hop_change_row, w.hop_change_pair)
        renewed = 1 - (1 - left.changed) * (1 - right.changed)
        delta = (left.changes + right.changes) * row + 2 * met * renewed * pair
        delta += met * renewed * (1 - renewed) * w.hop_kept_pair
        if windows:
            delta += BEHIND_WINDOW_JOIN * w.hop_operator
        complete = self._whole_rows(left) + self._whole_rows(right) + met * w.hop_whole_pair
        return self._converted(delta, complete, out)

    def match(self, left: Flow, right: Flow, met: float, out: Flow) -> Costs:
        """A semi, anti or outer join: as a join, but rows of the left are given, not pairs."""
        w = self._w
        renewed = 1 - (1 - left.changed) * (1 - right.changed)
        delta = (left.changes + right.changes) * w.hop_match_row + 2 * met * renewed * w.hop_match_pair
        delta += out.changes * w.hop_give
        complete = self._whole_rows(left) + self._whole_rows(right) + met * w.hop_whole_look
        return self._converted(delta, complete + out.rows * w.hop_pass, out)

    def tally(self, inputs: Sequence[Flow], out: Flow) -> Costs:
        """DISTINCT and the set operations, difference among them (5.2.2).

        What changes cost depends on how many of them change the answer: those are given and, as they can
        cancel within a hop, netted.
        """
        delta = sum(one.changes for one in inputs) * self._w.hop_tally + out.changes * self._w.hop_give
        complete = sum(self._slots(one) + one.rows * self._w.hop_whole_tally for one in inputs)
        return self._converted(delta, complete, out)

    def group(self, below: Flow, out: Flow) -> Costs:
        """An aggregate (5.2.4): incremental over changes, anew over the whole."""
        w = self._w
        delta = below.changes * w.hop_group + out.changes * w.hop_say
        complete = below.rows * w.hop_whole_group + out.rows * w.hop_say
        return self._converted(delta, complete, out)

    def panes(self, below: Flow, out: Flow, forms: Sequence[Form] = FORMS) -> Costs:
        """An aggregate right above a window: these outputs from panes, without a conversion.

        It reads the stream itself, so the window below it, which is priced there, does not run.
        """
        w = self._w
        combined = w.hop_operator + below.came * w.hop_pane + out.rows * w.hop_slot
        combined -= self.window(below)["DIDO"]
        whole = dict(self.group(below, out))
        if self.only == "complete":
            return whole
        by_panes: Costs = {"DIDO": combined + out.changes * w.hop_slot, "DICO": combined}
        return whole | {mode: cost for mode, cost in by_panes.items() if writes(mode) in forms}

    def union(self, out: Flow) -> Costs:
        """Rows are passed on (5.1.4: stateless in DIDO and CICO)."""
        return self._converted(out.changes * self._w.hop_pass, out.rows * self._w.hop_pass, out)

    def select(self, flow: Flow, form: Form) -> float:
        """A filter or projection (5.2.3) of what comes."""
        return flow.in_form(form) * self._w.hop_select

    def _whole_rows(self, flow: Flow) -> float:
        """Rows of a whole input that are linked or probe; those of a window know their key's slot."""
        return flow.rows * self._w.hop_whole_row + self._slots(flow)

    def _slots(self, flow: Flow) -> float:
        """Finding the slots of keys; those of a window's rows are found once."""
        return (flow.came if flow.is_window else flow.rows) * self._w.hop_whole_hash

    def _converted(self, delta: float, complete: float, out: Flow) -> Costs:
        """All four modes of an operator, by what it costs to read deltas and to read answers."""
        w = self._w
        fold = w.hop_operator + out.rows * w.hop_fold + out.changes * w.hop_fold_change
        compare = w.hop_operator + 2 * out.rows * w.hop_compare + out.changes * w.hop_compare_change
        delta, complete = delta + w.hop_operator, complete + w.hop_operator
        costs: dict[Mode, float] = {}
        if self.only != "complete":
            costs |= {"DIDO": delta, "DICO": delta + fold}
        if self.only != "delta":
            costs |= {"CICO": complete, "CIDO": complete + compare}
        return costs
