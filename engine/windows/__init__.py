"""Windows over one stream: as rows pass, and kept in common; what each window is told.

A line belongs here if it turns rows into rows that come and go with a window.
Imported by `running`, and by operators that read whole windows.
Read first: `window_store.py`, the rows once for all windows; `range_window.py` for a window of a query's own.

    row at 3, RANGE 5          +row at 3                -row at 8
    rows at 3, 4, 7, ROWS 2    +row at 3   +at 4        -row at 3 and +row at 7, at 7
"""
