"""Entries per tree node, known to the kernels and to the cost model. The T-tree's is a power of two."""

TTREE_NODE = 64
BTREE_NODE = 64
