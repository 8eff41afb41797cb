"""Queries at work: they come, change, fail and go, and plans succeed each other.

A line belongs here if it is about the life of queries and of the streams' time; how a plan becomes operators
and what it shares is below.
Imported by checkpoints and, from outside, by the public face and the optimizer's calibrations.
Read first: `runtime.py`; then `succession.py`, how a query goes over to another plan.

    plan -> pipeline -> sink        push -> operators get turns -> plans that have caught up take over
"""
