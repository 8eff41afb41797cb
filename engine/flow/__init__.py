"""How rows and time get from one operator to the next: queues with promises, and who runs next.

A line belongs here if it would be the same for any two operators. What one operator means is in its own
room.
Every room with an operator imports it.
Read first: `queue.py`, batches and punctuations; `operator.py`, what the scheduler asks of an operator.

    operator -> [ rows at 3, 4 | rows at 6 | promise: nothing below 7 ] -> operator
"""
