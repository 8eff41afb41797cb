"""How kernels are compiled, and what any of them may use: cursors, copies, vectors.

A line belongs here if it is about compiling, or moves values without knowing what they mean.
Imported by all kernels.
Read first: `jit.py`; `cursor.py`, how a kernel goes on when its output was full.
"""
