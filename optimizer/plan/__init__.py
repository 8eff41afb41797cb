"""Which operators: from the tree of a query to the nodes that the engine runs.

A line belongs here if it chooses a node for a query by itself. What queries have in common is in `share`.
Read first: `plan_query.py`, which hands a query to `plan_streams.py`, `plan_changes.py` or
`plan_hopping.py`.

    Project over Join over two scans     ->     Join(sides, hash, b+tree) with outputs, over two sources
"""
