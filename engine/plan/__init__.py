"""What the engine is asked to run: frozen nodes, and what can be told of them without running them.

A line belongs here if it describes work and does none. Nodes hold no state and know no operator.
The optimizer writes these, `running` reads them.
Read first: `plan.py`.

    Aggregate(keys, calls) over Select(predicate, outputs) over Join(sides, condition) over Source("s"),
    Source("r")
"""
