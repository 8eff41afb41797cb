"""All an engine holds, as bytes, and back: whole or not at all.

A line belongs here if it writes or reads state whatever the operator; what must hold of it, each class says
itself.
Imported by the public face.
Read first: `object_graph.py`; then `object_builder.py`, which trusts nothing it reads.

    engine -> records + buffers -> file under its name when whole -> records + buffers -> engine
"""
