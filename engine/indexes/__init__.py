"""How the rows of one shelf are found by key: scan, hash, T-tree, B+tree behind one contract.

A line belongs here if it is about finding rows whose keys match; which rows still live is told to it as a
number.
Imported by shelves and joins; knows neither.
Read first: `index.py`, the contract; then `hash.py`.

    insert(keys), probe(keys, from which row on) -> pairs of row numbers, newest first
"""
