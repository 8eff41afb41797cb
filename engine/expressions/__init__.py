"""What a row says: expressions and functions over the columns of a batch.

A line belongs here if it computes a value of a row from values of the same row, as DuckDB would.
Whoever has conditions or outputs may import it.
Read first: `expression.py`, the tree; then `evaluate.py`, which computes it, and `functions/`, one theme a
file.

    a.v > b.v + 1      Call(">", Column a.v, Call("+", Column b.v, Literal 1))
"""
