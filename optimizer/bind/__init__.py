"""Names, types, windows and the kind of output settled; what is not built is refused here, by name and place.

A line belongs here if it goes from the stock parser's tree to ours. Nothing is chosen.
Imported by the public face; the passes below know only what it writes.
Read first: `bind.py`; then `bind_select.py`, and `parts_read.py`: what nobody read is refused.

    v > 3 OR 'a'    ->    BindError: Expected BOOLEAN beside OR, found VARCHAR, at line 1, column 30
"""
