"""What one hop costs an operator of a hopping query, in each of its modes.

The formulas are those of the thesis on multi-mode hopping windows, section 5.2, with our operators in them.
What differs, and why:

- As many rows come as leave (the thesis's dp = dn), so its insert, probe and purge grow with one number and
  have one weight, per change; a change is a row that comes or one that leaves.
- Rows and pairs that leave by themselves cost whoever reads them nothing at their end but where they are made
  into changes: at the end of a query, before they are folded into an answer, and below semi, anti and outer
  joins. Of all changes at the end of a query only the net ones are given. So what an operator costs depends
  on whether it is the topmost one (`emitted`), and there the changes of a join cost most.
- Pairs leave in another order than they came in, and are kept by the time at which they do (`later`); so do
  rows of two windows that are not made of whole hops.
- A converting operator is the plain one and a conversion behind it: DICO folds changes into the answer kept,
  CIDO compares the answer with the one before. (The text swaps DICO and DIDO in places, and counts a
  conversion for the difference in DIDO, which has none.)
- A whole join links rows of a window by key slots found once, when the row came; only rows that are no
  window's have their keys hashed at every hop. It keeps one table and probes it, as section 5.2.1 has it; the
  table has a place for every key.
- Looking up costs more the more there is to be looked through, for caches end (`far`).
- An aggregate right above a window combines panes: a row is looked at once, a hop costs each group a step.
- Running takes some time at every hop, however few the rows: that of a stream's push into its window, of an
  operator, and of one that keeps rows from hop to hop, or even by key, which is more. With few rows in a hop
  it is all there is, and decides between modes.

Costs are seconds per hop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.plan.modes import Form, Mode, writes

FORMS: tuple[Form, Form] = ("delta", "complete")
LEAST_SHARE = 1e-12
NEAR_ROWS, FAR_ROWS = 10_000.0, 300_000.0
LEAST_MET = 1e-9
MOST_KEYS = 4  # per row, that a whole join remembers (key_slots.py)

Costs = Mapping[Mode, float]


@dataclass(frozen=True, slots=True)
class Flow:
    """What an operator gives: rows of its answer at a boundary, and how much of that is new since the last.

    parts: what the answer is made of, each with the share of it that one hop replaces. A row stays if all
    its parts do. Parts have names, so that one that is read twice counts once, whatever the plan's shape.
    is_mixed: its rows leave in another order than they came in, as pairs of a join do.
    """

    rows: float
    parts: frozenset[tuple[object, float]]
    is_window: bool = False
    is_mixed: bool = False

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

    @property
    def is_even(self) -> bool:
        """Whether rows that come at one boundary leave at one: windows are made of whole hops."""
        hops = 1 / max(self.changed, LEAST_SHARE)
        return abs(hops - round(hops)) < 1e-6 * hops

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


def far(rows: float) -> float:
    """What looking a row up costs among so many, against NEAR_ROWS of them: more of it is in no cache, until
    all is far away."""
    return math.sqrt(min(rows, FAR_ROWS) / NEAR_ROWS)


class HoppingCosts:
    """The formulas, with the weights of a machine; only: the form that every operator has to read."""

    def __init__(self, weights: Weights, only: Form | None = None) -> None:
        self._w = weights
        self.only = only

    def window(self, flow: Flow) -> Costs:
        """A stream through its window: rows as they come, or the whole window, of which nothing is copied."""
        w = self._w
        return {
            "DIDO": w.hop_source + flow.came * w.hop_window,
            "DICO": w.hop_source + flow.came * w.hop_whole_window,
        }

    def table(self, rows: float) -> dict[Form, float]:
        """A table: it came before the first hop; whole, it is passed on at every one."""
        return {"delta": 0.0, "complete": self._w.hop_operator + rows * self._w.hop_pass}

    def join(self, left: Flow, right: Flow, met: float, out: Flow) -> Costs:
        """An inner join (5.2.1). met: pairs of rows with equal keys in the two answers."""
        w = self._w
        found = met * (1 - (1 - left.changed) * (1 - right.changed))
        if left.is_window and right.is_window:
            delta = w.hop_operator
            delta += (left.came + right.came) * w.hop_join_row + found * w.hop_join_pair
        else:
            delta = w.hop_keyed + (later(left) + later(right)) * w.hop_kept_pair
            delta += (left.came + right.came) * w.hop_change_row + found * w.hop_change_pair
        complete = w.hop_operator + self._whole_rows(left, right, met) + met * w.hop_whole_pair
        return self._converted(delta, complete, out, ends=True)

    def match(self, left: Flow, right: Flow, met: float, out: Flow, is_outer: bool = False) -> Costs:
        """A semi, anti or outer join: over changes it has to be told of every row that leaves, and counts
        each row's partners; over whole answers only an outer join makes pairs."""
        w = self._w
        renewed = 1 - (1 - left.changed) * (1 - right.changed)
        delta = w.hop_keyed + self._expired(left) + self._expired(right)
        delta += (left.changes + right.changes) * w.hop_match_row + met * renewed * w.hop_match_pair
        delta += out.changes * w.hop_give
        complete = w.hop_operator + self._whole_rows(left, right, met) + out.rows * w.hop_pass
        complete += met * w.hop_whole_pair if is_outer else 0.0
        return self._converted(delta, complete, out)

    def tally(self, inputs: Sequence[Flow], out: Flow) -> Costs:
        """DISTINCT and the set operations, difference among them (5.2.2): whole rows are keys.

        What changes cost depends on how many different rows are among them, as does how many are given.
        """
        w = self._w
        delta = w.hop_keyed + later(*inputs) * w.hop_due_pair
        delta += sum(one.changes * far(one.rows) for one in inputs) * w.hop_tally
        delta += out.changes * w.hop_give
        complete = w.hop_operator + sum(
            one.rows * w.hop_whole_tally + hashed(one) * w.hop_tally_hash for one in inputs
        )
        return self._converted(delta, complete, out)

    def group(self, below: Flow, out: Flow) -> Costs:
        """An aggregate (5.2.4): incremental over changes, anew over the whole."""
        w = self._w
        delta = w.hop_keyed + later(below) * w.hop_due_pair
        delta += below.changes * w.hop_group + out.changes * w.hop_say
        complete = w.hop_operator + w.hop_keyed + below.rows * w.hop_whole_group + out.rows * w.hop_say
        return self._converted(delta, complete, out)

    def panes(self, below: Flow, out: Flow, forms: Sequence[Form] = FORMS) -> Costs:
        """An aggregate right above a window: these outputs from panes, without a conversion.

        It reads the stream itself, so the window below it, which is priced there, does not run.
        """
        w = self._w
        combined = w.hop_source + w.hop_operator + below.came * w.hop_pane + out.rows * w.hop_slot
        combined -= self.window(below)["DIDO"]
        whole = dict(self.group(below, out))
        if self.only == "complete":
            return whole
        by_panes: Costs = {"DIDO": combined + out.changes * w.hop_slot, "DICO": combined}
        return whole | {mode: cost for mode, cost in by_panes.items() if writes(mode) in forms}

    def union(self, out: Flow) -> Costs:
        """Rows are passed on (5.1.4: stateless in DIDO and CICO)."""
        w = self._w
        return self._converted(out.came * w.hop_pass, out.rows * w.hop_pass, out, ends=True)

    def select(self, flow: Flow, form: Form) -> float:
        """A filter or projection (5.2.3) of what comes."""
        return flow.in_form(form) * self._w.hop_select

    def emitted(self, costs: Costs, out: Flow, ends: bool, is_net: bool = False) -> Costs:
        """The topmost operator with the query's end behind it: of changes only the net ones are given.

        ends: its changes say when rows leave, and not that they do. is_net: none of its changes cancel.
        """
        w = self._w
        found = {mode: cost + w.hop_operator for mode, cost in costs.items()}
        if "DIDO" in found and not is_net:
            found["DIDO"] += out.changes * w.hop_net + (self._expired(out) if ends else 0.0)
        return found

    def _expired(self, flow: Flow) -> float:
        """Rows that leave by themselves made into changes."""
        w = self._w
        return w.hop_state + flow.changes * w.hop_expire + later(flow) * w.hop_kept_pair

    def _whole_rows(self, left: Flow, right: Flow, met: float) -> float:
        """Rows of whole inputs that are linked and probe, by a table of all keys."""
        w = self._w
        rows = left.rows + right.rows
        keys = min(left.rows * right.rows / max(met, LEAST_MET), MOST_KEYS * rows)
        hashes = (hashed(left) + hashed(right)) * far(keys)
        return rows * w.hop_whole_row + hashes * w.hop_whole_hash + keys * w.hop_whole_key

    def _converted(self, delta: float, complete: float, out: Flow, ends: bool = False) -> Costs:
        """All four modes of an operator, by what it costs to read deltas and to read answers; ends: as
        above."""
        w = self._w
        fold = w.hop_state + out.rows * w.hop_fold + out.changes * w.hop_fold_change
        fold += self._expired(out) if ends else 0.0
        compared = 2 * out.rows * far(out.rows)
        compare = w.hop_state + compared * w.hop_compare + out.changes * w.hop_compare_change
        costs: dict[Mode, float] = {}
        if self.only != "complete":
            costs |= {"DIDO": delta, "DICO": delta + fold}
        if self.only != "delta":
            costs |= {"CICO": complete, "CIDO": complete + compare}
        return costs


def later(*inputs: Flow) -> float:
    """Rows of inputs that are read together that are to be kept by the time at which they leave.

    Those of a window leave in the order in which they came; those of several do if all that come at one
    boundary leave at one. There is no other order for what all leaves at the next boundary.
    """
    if not (any(one.is_mixed for one in inputs) or mixes(inputs)):
        return 0.0
    return sum(one.came * (1 - one.changed) * far(one.rows) for one in inputs)


def mixes(inputs: Sequence[Flow]) -> bool:
    """Whether inputs that do not leave in another order than they came in do if they are read together."""
    return len(inputs) > 1 and not all(one.is_even for one in inputs)


def hashed(flow: Flow) -> float:
    """Rows of a whole input whose keys are to be found; those of a window's rows are found once."""
    return flow.came if flow.is_window else flow.rows
