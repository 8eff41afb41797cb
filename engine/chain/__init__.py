"""State-Slice to the letter: a chain of sliced joins, a second way that must give the same answers.

A line belongs here if it is the paper's: slices as operators, references that pass through, their ordered
union.
Imported by the forms a common join can take.
Read first: `chain.py`, then `slice_join.py`, one slice.

    rows -> head -> [0, 3) -> [3, 7) -> [7, 12)        a member with window 7 takes the pairs of the first
    two
"""
