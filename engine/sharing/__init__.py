"""Plans at work, and the work that they share.

A line belongs here if it is about how a plan becomes operators, its own or those it has in common with
others, and what these can tell who comes late; when plans come and go, and what fails, is above.
Imported by the rooms above and, from outside, by the public face and the optimizer's explanations.
Read first: `shared_work.py`, the one contract; then `shared_join.py`, a kind that fulfils it.

    plan -> at work already? -> its reader, or new operators -> joined by queues
"""
