"""Rows by time and by key: hash chains, expiry, fingerprints, slots, changes that cancel each other.

A line belongs here if more than one kind of operator runs it over rows. Serves engine/rows, keys and
intake.
Read first: `hash.py`: newest-first links, so that nothing is deleted when rows expire.
"""
