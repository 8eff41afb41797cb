"""The weights of the cost model, measured on this machine: `penstock calibrate`.

A line belongs here if it runs the engine to find out what something costs.
Read first: `calibrate.py`.
"""
