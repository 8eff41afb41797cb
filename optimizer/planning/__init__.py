"""How a bound query comes to the plan that runs: the passes, in their order.

A line belongs here if it says which pass follows which, and why. What a pass does is in the room it is from.
Read first: `passes.py`, one tuple; `planner.py` goes through it.

    decide_hopping  make_nodes  prune_columns  share_joins  share_selects | share_windows
    --------------------- when a query is asked for --------------------- | when it begins

Which index serves a join is chosen where queries share it (room `share`), again and again.
"""
