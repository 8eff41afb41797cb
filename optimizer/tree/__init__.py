"""What a query asks for, once names and types are settled and before anything is chosen.

A line belongs here if the binder writes it and every pass reads it.
Read first: `logical.py`.

    SELECT k FROM s [RANGE 5] WHERE v > 3      Project(k) over Filter(v > 3) over StreamScan(s, RANGE 5)
"""
