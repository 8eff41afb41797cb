"""The rows of one stream, kept once for all who need them: how long each lives, and what a newcomer finds.

A line belongs here if it is about rows that stay: who needs them, for how long, and from when on somebody
has all.
Imported by windows and joins, which read the shelves.
Read first: `shelf.py`, rows that live equally long; then `side.py`, which puts rows on them.

    RANGE 5 and RANGE 9 WHERE v > 3         shelf 5:  rows that only the first needs
                                            shelf 9:  rows that both need
"""
