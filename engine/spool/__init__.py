"""Rows that wait on the disk: written behind one another, read back in order, once.

A line belongs here if it is about blocks of rows in files. Which rows go there, and when they are needed
again, is known to whoever owns a spool. It is in the engine because that must be known between two rows; a
clock is not read here either.
Imported by whoever keeps more rows than memory is meant for.
Read first: `spool.py`; then `spool_folder.py`, whose the files are and when they may go.

    append -> | block 4 | block 3 | block 2 | -> take          segments: 1.rows has blocks 2 and 3, 2.rows 4
"""
