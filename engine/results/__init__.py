"""What waits for the user: results that nobody has read yet, and the memory they keep alive.

A line belongs here if it is behind the last operator of a query.
Imported by `running`, and by whoever keeps rows that results still refer to.
Read first: `sink.py`.

    last operator -> sink -> pending batches -> results(), subscribers; or a count alone
"""
