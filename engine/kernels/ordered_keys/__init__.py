"""Kernels of keys that grow: how far out of order they come, who precedes whom, what can be met no more.

Imported by ../../intake and ../../ordered_keys.
Read first: `follow_keys.py`.
"""
