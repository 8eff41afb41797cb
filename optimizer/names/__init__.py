"""What functions are called, which types they take and give, and what other systems call them.

A line belongs here if it is a row of a table of names.
Imported by the binder.
Read first: `functions.py`; a new function begins there and in `function_names.py`.
"""
