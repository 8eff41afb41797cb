"""The plan, for people and for programs: what runs, at what cost, with how much state, and what else there
was.

A line belongs here if it is words or numbers for a reader of EXPLAIN.
Imported by the public face.
Read first: `explain.py`; `description.py`, what an operator says of itself.
"""
