"""What must hold of state that comes back from bytes that anybody may have written.

A line belongs here if it says what may be restored, or what arrays must satisfy before a kernel follows
them.
Everybody may import this room, as each class says itself what must hold of it; it imports the kernels
alone.
Read first: `in_order.py`, which classes ask; `restorable.py`, the closed list of classes and types.

    links 3 -> 1 -> 0     in order          links 3 -> 1 -> 3     Disorder: a circle; nothing is restored
"""
