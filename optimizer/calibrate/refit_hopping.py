"""The weights of hopping operators that come with the package, measured anew:

    python -m penstock.optimizer.calibrate.refit_hopping [RUNS]

Only those of hopping_cost.py; all others stay as they are. To be run where nothing else runs: it writes
default_weights.json, from which every machine starts that is not calibrated itself.
"""

from __future__ import annotations

import dataclasses
import json
import sys

from penstock.optimizer.costs.weights import SHIPPED, read

from .calibrate import Hashes, processor_time
from .calibrate_hopping import RUNS, hopping_weights


def refit_hopping(runs: int) -> None:
    """Measure, show what has changed, and write."""
    before = read(SHIPPED)
    found, misses = hopping_weights(False, processor_time, Hashes, before, runs)
    for name, value in found.items():
        print(f"{name:20} {value * 1e9:12,.2f} ns, was {getattr(before, name) * 1e9:,.2f}")
    print(f"within {misses:.0%} of what was measured, as a rule")
    weights = dataclasses.asdict(before) | {name: float(f"{value:.4g}") for name, value in found.items()}
    SHIPPED.write_text(json.dumps(weights, indent=2) + "\n")


if __name__ == "__main__":
    refit_hopping(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
