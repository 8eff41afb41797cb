"""Rows on their way to a join without windows: waiting for their time, or for lesser keys of their stream.

A line belongs here if it is about a row before the join has seen it, or says what memory may be taken.
Imported by joins on keys that grow.
Read first: `memory_rules.py`, the strategies; `backlog.py`, what waits for the time of other streams.

    queue -> [ backlog, its end on the disk ] -> [ in the order of keys ] -> join
"""
