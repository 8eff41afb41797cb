"""MessagePack, looked at before anything is made of it: a list may say that it is longer than all that
follows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import kernel


@kernel
def is_whole(data):  # type: ignore[no-untyped-def]
    """Whether bytes (uint8) are one value, and every list and text in it as long as it says.

    What is still to come never is more than there are bytes left: so nobody makes more room than that.
    """
    size = len(data)
    at = 0
    pending = 1
    while pending > 0:
        if pending > size - at:
            return False
        first: Any = np.int64(data[at])
        at += 1
        pending -= 1
        kind = 0  # 0: nothing more; 1: as many bytes; 2: as many items; 3: twice as many
        count = 0
        digits = 0
        if first >= 0x80 and first <= 0x8F:
            kind, count = 3, first & 0x0F
        elif first >= 0x90 and first <= 0x9F:
            kind, count = 2, first & 0x0F
        elif first >= 0xA0 and first <= 0xBF:
            kind, count = 1, first & 0x1F
        elif first >= 0xC4 and first <= 0xC6:
            kind, digits = 1, 1 << (first - 0xC4)
        elif first >= 0xC7 and first <= 0xC9:
            kind, digits, count = 1, 1 << (first - 0xC7), 1
        elif first == 0xCA or first == 0xCB:
            kind, count = 1, 4 << (first - 0xCA)
        elif first >= 0xCC and first <= 0xD3:
            kind, count = 1, 1 << (first & 3)
        elif first >= 0xD4 and first <= 0xD8:
            kind, count = 1, 1 + (1 << (first - 0xD4))
        elif first >= 0xD9 and first <= 0xDB:
            kind, digits = 1, 1 << (first - 0xD9)
        elif first == 0xDC or first == 0xDD:
            kind, digits = 2, 2 << (first - 0xDC)
        elif first == 0xDE or first == 0xDF:
            kind, digits = 3, 2 << (first - 0xDE)
        if digits > size - at:
            return False
        length = 0
        for i in range(digits):
            digit: Any = np.int64(data[at + i])
            length = (length << 8) | digit
        at += digits
        count += length
        if count > size - at:
            return False
        if kind == 1:
            at += count
        elif kind == 2:
            pending += count
        elif kind == 3:
            pending += 2 * count
    return at == size
