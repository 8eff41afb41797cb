"""The same meaning in a better form: one file per rule, plan in, plan out, nothing changed in place.

A line belongs here if it would be right whatever things cost.
Imported by the planners.
Read first: `simplify_condition.py`; then `match_condition.py`, what of a condition an index can serve.

    NOT (a.k <> b.k) AND 1 = 1     ->     a.k = b.k
"""
