"""Keys found: chains walked by many probers at once, T-tree and B+tree.

A line belongs here if it goes from a key to row numbers. Serves engine/indexes.
Read first: `scan.py`, what the others must equal; then `hash_rounds.py`.
"""
