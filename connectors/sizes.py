"""Numbers of bytes for people: 1 GB is 1,024 MB here."""

from __future__ import annotations

UNITS = (("GB", 30), ("MB", 20), ("kB", 10))


def show_bytes(size: int) -> str:
    """`64 MB`, `1.5 GB`, `100 bytes`."""
    for unit, shift in UNITS:
        if size >= 1 << shift:
            return f"{size / (1 << shift):.4g} {unit}"
    return f"{size:,} bytes"
