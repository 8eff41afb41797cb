"""Who asks what: queries as members of shared work, their filters taken apart, and who takes a row or a pair.

A line belongs here if it can be said of questions before any row is there: it holds no rows.
Imported by shelves, selects, windows and joins, which ask it.
Read first: `member.py`; then `lineage.py`, how a row is tagged once for all filters.

    q1: v > 3   q2: v > 5   q3: v > 3 AND s LIKE 'x%'    cuts of v: 3, 5;  leaf of v = 4: 1;  LIKE has a bit
"""
