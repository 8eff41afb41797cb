"""Slots of a cursor: the int64 array with which a kernel remembers where it stopped when output was full."""

PROBER = 0  # the prober being served
RESUME = 1  # 1: go on inside that prober's matches, from AT_ROW (and AT_KEY); 0: it has not begun
AT_ROW = 2
AT_KEY = 3
DONE = 4  # 1: all probers served, all rows up to `end` inserted
CURSOR_SLOTS = 5
