"""What queries have in common, how it is laid out, and what that costs.

A line belongs here if it is about more than one query.
Read first: `share_joins.py`, joins in a normal form in which equal means common; then `lay_out_joins.py`.

    q1: a.k = b.k, RANGE 5    q2: b.k = a.k, RANGE 9     ->     one join, slices [0, 5) and [5, 9)
"""
