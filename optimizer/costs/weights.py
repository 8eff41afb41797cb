"""What one access costs on this machine: the constants of the cost model, measured by `penstock calibrate`.

Stored per machine in the user's configuration folder; where none are stored, those that came with the
package.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.engine.rows.errors import DataError

SHIPPED = Path(__file__).with_name("default_weights.json")
FORMER = {"beside", "hop_whole_look"}  # in files stored when the model asked for them
TURN_ROWS = 512  # given to a slice at once, where nothing is known of that


@dataclass(frozen=True, slots=True)
class Weights:
    """Seconds: per row accessed in a search (P) and in an update (I) of each index, as in Table 1 and
    equation 7 of the window-join paper; per match walked in a B+tree (tree_walk) and
    in a T-tree; per pair passed on; per row taken in.

    For joins that queries have in common: slice_row, for a row to pass one more slice of a chain of
    operators; slice_turn, for one more slice to be given rows, however many, where queries only count
    (together C_sys of the state-slice paper); given_turn, the same where they are given pairs, and
    given_taker, for each query that takes pairs of the slice; given_test, for a pair to be tested by a query
    whose window ends within its slice; given_merge, for a pair to be put into order among those of other
    slices; slice_pair, for a pair to be told apart in a slice in which windows end, over one that
    is counted with all others of its slice; shelf_probe, for a row to probe one more, nearly empty shelf;
    route, for a pair to be tested against one query; key_count, for a row to enter or leave a slice in which
    rows are counted by key, or to look its key up there; deal, for a pair to be dealt out among a few
    queries; tell_row, for a row to be told who takes it, where queries ask different things.

    For joins below incremental queries (choose_expiry.py): kept_* where pairs are kept until they leave,
    again_* where they are found again for each row that leaves; per row, and per pair by who reads it.

    For hopping queries (hopping_cost.py), per row and hop unless said otherwise: hop_operator, hop_state,
    hop_keyed and hop_source, for an operator to run at all, for one that keeps rows from hop to hop, for one
    that keeps them by key, and for a stream to be pushed into its window; hop_window and hop_whole_window,
    for a row to enter it; hop_pass, to hand a row on; hop_join_*, hop_change_* and hop_match_*, for a window
    join, a join of other inputs, and a semi, anti
    or outer join, per row and per pair; hop_expire, per change where rows that leave are made into changes;
    hop_kept_pair, for a pair that is kept for longer than a hop, and hop_due_pair where only its group is;
    hop_whole_* for operators over whole answers (row: link or probe, hash: find the key's slot, key: of all
    different ones); hop_tally_hash, the same for a set operation, whose keys are whole rows; hop_give, per
    change that a set operation, semi, anti or outer join gives; hop_net, per change at the end of a query,
    of which only the net ones come out; hop_fold and hop_fold_change, per row of the answer and per change
    that is folded in; hop_compare and hop_compare_change, per row of two answers and per row that is in one
    of them; hop_say, per group that is given; hop_pane and hop_slot, per row and per group of panes.

    Files stored before these were measured lack them.
    """

    scan_search: float
    scan_update: float
    hash_search: float
    hash_update: float
    ttree_search: float
    ttree_update: float
    btree_search: float
    btree_update: float
    tree_walk: float
    pair: float
    row: float
    slice_row: float = 3.2e-8
    shelf_probe: float = 1.7e-8
    route: float = 8e-10
    key_count: float = 1e-8
    deal: float = 1.5e-8
    kept_row: float = 2e-7
    again_row: float = 9e-7
    kept_pair_rows: float = 4e-7
    again_pair_rows: float = 2e-8
    kept_pair_sums: float = 2e-7
    again_pair_sums: float = 9e-8
    kept_pair_order: float = 1.9e-7
    again_pair_order: float = 1.7e-7
    ttree_walk: float = 2e-9
    slice_pair: float = 4.1e-8
    tell_row: float = 8.5e-8
    slice_turn: float = 4.5e-7
    machine: str = "unknown"
    hop_operator: float = 4e-05
    hop_pass: float = 3e-09
    hop_select: float = 1.4e-09
    hop_window: float = 1.2e-08
    hop_whole_window: float = 5e-09
    hop_join_row: float = 2e-08
    hop_join_pair: float = 5e-08
    hop_change_row: float = 2.5e-07
    hop_change_pair: float = 1.2e-07
    hop_match_row: float = 1e-07
    hop_match_pair: float = 7e-08
    hop_whole_row: float = 1.5e-09
    hop_whole_hash: float = 3e-09
    hop_whole_pair: float = 7e-09
    hop_tally: float = 3e-08
    hop_whole_tally: float = 3e-09
    hop_group: float = 2e-08
    hop_whole_group: float = 1.2e-08
    hop_say: float = 8e-08
    hop_pane: float = 7e-09
    hop_slot: float = 3e-08
    hop_fold: float = 2.2e-08
    hop_fold_change: float = 5e-08
    hop_compare: float = 7e-09
    hop_kept_pair: float = 1.2e-07
    hop_compare_change: float = 1.2e-08
    hop_give: float = 1e-07
    hop_source: float = 0.0001
    hop_state: float = 0.00012
    hop_expire: float = 6e-08
    hop_net: float = 3.5e-08
    hop_tally_hash: float = 1.4e-08
    hop_whole_key: float = 2e-09
    hop_due_pair: float = 4e-08
    hop_keyed: float = 0.00018
    given_turn: float = 1.8e-05
    given_taker: float = 7e-06
    given_test: float = 7.6e-09
    given_merge: float = 5e-09

    def of_pairs(self, reader: str) -> tuple[float, float]:
        """(kept, found again): seconds of a join's pair by who reads it."""
        match reader:
            case "rows":
                return self.kept_pair_rows, self.again_pair_rows
            case "sums":
                return self.kept_pair_sums, self.again_pair_sums
        return self.kept_pair_order, self.again_pair_order

    def walk(self, kind: str) -> float:
        """Seconds per match that a probe walks along, in a tree."""
        return self.ttree_walk if kind == "t-tree" else self.tree_walk

    def of(self, kind: str) -> tuple[float, float]:
        """(search, update) of an index."""
        match kind:
            case "scan":
                return self.scan_search, self.scan_update
            case "hash":
                return self.hash_search, self.hash_update
            case "t-tree":
                return self.ttree_search, self.ttree_update
            case "b+tree":
                return self.btree_search, self.btree_update
        raise AssertionError(f"expected a kind of index, found {kind}")


def folder() -> Path:
    """Where what belongs to this machine and user is kept: PENSTOCK_HOME, else the configuration folder."""
    home = os.environ.get("PENSTOCK_HOME")
    if home:
        return Path(home)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "penstock"


def save(weights: Weights) -> Path:
    """Keep the weights for this machine."""
    path = folder() / "weights.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(dataclasses.asdict(weights), indent=2) + "\n")
    temporary.replace(path)
    load.cache_clear()
    return path


@cache
def load() -> Weights:
    """The weights of this machine, or the shipped ones."""
    path = folder() / "weights.json"
    return read(path if path.exists() else SHIPPED)


def read(path: Path) -> Weights:
    """Weights from a file."""
    try:
        named = json.loads(path.read_text())
        weights = Weights(**{name: value for name, value in named.items() if name not in FORMER})
        for name, value in dataclasses.asdict(weights).items():
            if name != "machine" and not 0 < float(value) < math.inf:
                raise ValueError(f"{name} is {value}")
        return weights
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"Expected the weights of the cost model, found something else ({error}); "
            "`penstock calibrate` writes them anew",
            source=str(path),
        ) from None
