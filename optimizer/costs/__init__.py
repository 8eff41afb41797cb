"""What things cost here: weights that were measured, rates, the formulas of the papers.

A line belongs here if it turns rows per second into seconds per second; which plan wins is decided above.
Read first: `cost.py`, with the equations it is from; `weights.py`, the constants and where they come from.
"""
