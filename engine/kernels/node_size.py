"""Entries per tree node, known to the kernels and to the cost model. A power of two."""

NODE_ROWS = 64
TTREE_NODE = 32
BTREE_NODE = 64
