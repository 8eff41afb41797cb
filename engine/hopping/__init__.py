"""Whole answers at boundaries, and what turns them into differences and back.

A line belongs here if it works hop by hop. Aggregates put together from panes have a room of their own.
Imported by `running`.
Read first: `whole_operator.py`, what reads whole answers; `hop_answer.py` and `hop_delta.py`, from one form
to the other.

    changes -> HopAnswer -> whole answer at 10, 20, 30 -> HopDelta -> what is new since the last one
"""
