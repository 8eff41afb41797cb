"""Answers that change: joins, groups and set operations over bags of rows that come and go.

A line belongs here if an operator reads and writes +1 and -1 at any instant.
Imported by hopping operators, which reuse what groups and sets remember, and by `running`.
Read first: `group_by.py`; then `change_join.py` and `bag.py`, rows that can be taken out again.

    +row  +row  -row      COUNT 1, then -1 (1) +1 (2), then -1 (2) +1 (1)
"""
