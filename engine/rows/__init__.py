"""What a row is: its types, its times, the columns of a batch, and the plain arrays that hold them.

A line belongs here if it is true of rows whatever is asked of them: nobody here knows of queries, operators
or keys.
Everybody may import this room; it imports the kernels alone.
Read first: `batch.py`, what flows between operators; then `store.py`, where rows lie.

    store      ts   1   3   3   7   9        rows by number, oldest dropped first
    batch           [3 . . 4)                a view of rows 1 and 2: columns are gathered when somebody asks
"""
