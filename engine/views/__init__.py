"""Columns of rows that lie elsewhere: put together when somebody looks, and what memory they keep alive.

A line belongs here if it reads rows of several stores as if they were one column.
Imported by whoever passes rows on without copying them.
Read first: `joined_batch.py`, pairs that are not copied yet.

    pairs      a: 0 0 2      b: 5 7 5        column b.v of the pairs: 3 values, gathered once, if anybody
    asks
"""
