"""Joins without windows on columns that grow: rows stay until no row to come can have their key.

A line belongs here if it is about rows that go by their keys and not by their age.
Imported by those who build operators, and by whoever tells what these joins have missed.
Read first: `ordered_join.py`; how far a stream's keys have come is known where it enters
(../intake/key_frontier.py).

    a   5  6  8  7            frontier of b: 7
    b   5  6  7               rows 5 and 6 of a have gone: no 5 and no 6 of b can come
"""
