"""Which way runs a join that queries have in common, and how it goes from one to another while rows flow.

A line belongs here if it is about several joins that serve one set of members, or about changing between
such ways.
Imported by `sharing`.
Read first: `form.py`; then `together_or_apart.py`, one join or several by cost, and `push_down.py`.

    members -> group -> one join | a join per query | a join per part | a chain of slices
"""
