"""Hopping aggregates put together from panes: rows are added up once, whatever the windows.

A line belongs here if it adds up rows of one hop, or adds up what hops have added up.
Imported by `running`.
Read first: `pane_aggregate.py`; then `panes.py`, the sums of each pane.

    hop 10, window 30        pane 0-10   pane 10-20   pane 20-30        answer at 30: the three together
"""
