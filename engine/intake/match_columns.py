"""Which columns of what is given are the declared ones: the exact name, else the only one but for case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def fitting_columns(declared: Sequence[str], found: Sequence[str]) -> Iterator[list[int]]:
    """For each declared column the positions that may be meant; it is there if that is one."""
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for position, name in enumerate(found):
        exact.setdefault(name, []).append(position)
        folded.setdefault(name.strip().lower(), []).append(position)
    for name in declared:
        yield exact.get(name) or folded.get(name.lower(), [])
