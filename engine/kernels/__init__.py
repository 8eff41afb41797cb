"""Loops over arrays, compiled. Arrays and scalars in, arrays or counts out; no objects, no texts.

A line belongs here if it is run once per row. The wrapper that calls a kernel checks, the kernel trusts.
The rooms are named after those they serve; each kernel has a naive twin in the tests, found by its file and
name.
Read first: `base/jit.py`, the one place that says how kernels are compiled; `rows/hash.py`, the shortest
that matters.

    changes   hopping   windows   chain   indexes   joins
    rows
    base
"""
