"""Queries at work: plans become operators, shared work is found and let go, plans succeed each other.

A line belongs here if it is about queries that come, change, fail and go; what an operator does is below.
Imported by checkpoints and, from outside, by the public face and the optimizer's explanations.
Read first: `runtime.py`; then `plan_builder.py`, from nodes to operators.

    plan -> what is at work already? -> its reader, or new operators -> pipeline -> sink
"""
