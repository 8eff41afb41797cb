"""One join of three and more streams that keeps no pairs: a row seeks its partners stream by stream.

A line belongs here if it is about results with parts from more than two streams.
Imported by the forms a common join can take.
Read first: `many_join.py`; `probe_order.py` says in which order a row of each stream seeks.

    row of a -> partners in b -> of each, partners in c -> (a, b, c)
"""
