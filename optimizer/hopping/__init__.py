"""The cheapest plan of a hopping query: the order of its joins, its modes, and other modes while it runs.

A line belongs here if it chooses between plans of one hopping query by cost.
Read first: `optimize_hopping.py`; then `assign_modes.py`, a mode for every operator.
"""
