"""One window join of two streams, for all its members: examine, shelve, probe, then give or count the pairs.

A line belongs here if it is about pairs of two streams. Three and more are in `many_joins`, slices in
`chain`.
Imported by the forms a common join can take.
Read first: `window_join.py`, whose `step` is the order of the work; `direction.py`, one side probing the
other.

    left row  -> purge right -> probe right -> pairs -> who takes them -> members
    right row -> purge left  -> probe left  -> pairs -> ...
"""
