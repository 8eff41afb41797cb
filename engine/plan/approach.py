"""Words of planner and engine: how a plan hears of rows that leave, and what of its changes can cancel."""

from __future__ import annotations

from typing import Literal

Approach = Literal["promises", "ita", "nta", "time-message", "piggyback"]
"""How a query hears that rows have left their windows. promises: with every promise of its inputs."""

Netting = Literal["none", "between", "all"]
"""Whether changes of one instant can cancel: no, only those of different batches, any."""
