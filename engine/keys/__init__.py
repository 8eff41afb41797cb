"""When rows are equal: keys as integers, fingerprints, small numbers for keys that have come.

A line belongs here if it decides whether two rows, or their keys, are the same; who looks rows up by key is
an index.
Imported by whatever joins, groups or compares rows.
Read first: `keys.py`, how any key becomes an int64 that kernels take; `fingerprint.py`, when rows are one
and the same.

    "ab", 7   ->   hash 0x51c2...   ->   slot 12       compared as they are where two may share a hash
"""
