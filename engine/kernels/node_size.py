"""Entries per tree node, known to the kernels and to the cost model."""

TTREE_NODE = 64
BTREE_NODE = 64
