"""One slice of the chain, and neighbouring slices that only count. Serves engine/chain.

Read first: `slice_join.py`: references come in, pairs and references go out.
"""
