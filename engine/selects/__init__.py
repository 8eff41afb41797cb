"""Filters and projections of one stream, alone and shared, and unions.

A line belongs here if an operator gives each row, or not, looking at that row alone.
Imported by `running`, which builds them.
Read first: `select.py`; then `shared_select.py`, where each condition is looked at once for all queries.

    rows -> [ v > 3 AND k = 1 ] -> k, v + 1
"""
