"""Text to statements: tokens, our own clauses, the stock parser. No name is looked up here.

A line belongs here if it is about how something is spelt, or refuses a spelling.
Imported by the binder.
Read first: `parse.py`; then `lift.py`, which takes our clauses out so that the stock parser can read the
rest.

    SELECT k FROM s [RANGE 5] HOP BY 2   ->   SELECT k FROM s     +  window of s: RANGE 5  +  hop: 2
"""
