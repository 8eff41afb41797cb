"""Pairs: which rows a prober sees, which members take a pair, how many pairs there are of each sort.

A line belongs here if it looks at two rows, or at what members ask of two. Serves engine/joins, members and
shelves.
Read first: `bounds.py`, then `lineage.py` and `query_index.py`.
"""
