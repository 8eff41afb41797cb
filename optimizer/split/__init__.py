"""The key by which queries can be split over engines, and which queries cannot be.

A line belongs here if it is about answers that are put together from parts of the streams. Imported by
Spark's scale-out.
Read first: `find_partition_key.py`.
"""
