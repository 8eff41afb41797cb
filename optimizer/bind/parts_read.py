"""Which parts of the stock parser's tree have been read; what nobody read is refused.

The stock parser understands far more SQL than we run, and what it understands it hangs onto some node: a
LIMIT behind brackets onto the brackets. Whoever binds a node notes which of its parts it reads. When all is
bound, one walk over the whole tree finds what is there and was not read: a part that nobody asked for, a node
that somebody looked past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

# A node of the stock parser's tree.
Tree = Any


class PartsRead:
    """Parts by node. Nodes are told apart by identity: equal ones stand in several places."""

    __slots__ = ("_by_node",)

    def __init__(self) -> None:
        self._by_node: dict[int, Collection[str]] = {}

    def note(self, node: Tree, parts: Collection[str]) -> None:
        """`parts` of the node have been read; what stands in them is read by whoever binds it."""
        known = self._by_node.get(id(node))
        self._by_node[id(node)] = parts if known is None or known == parts else {*known, *parts}

    def find_unread(self, root: Tree) -> tuple[Tree, str, Any] | None:
        """The first part that nobody read: its node, its name and what is in it."""
        stack = [root]
        while stack:
            node = stack.pop()
            read = self._by_node.get(id(node), ())
            inner: list[Tree] = []
            for part, value in present_parts(node):
                # A list has nodes only; what else may stand in a part is a word or a flag.
                nodes = value if isinstance(value, list) else [value] if hasattr(value, "arg_types") else []
                if part not in read or any(id(each) not in self._by_node for each in nodes):
                    return node, part, value
                inner += nodes
            stack.extend(reversed(inner))
        return None


def present_parts(node: Tree) -> Iterator[tuple[str, Any]]:
    """The parts in which something is written."""
    for part, value in node.args.items():
        if not (value is None or value is False or value == [] or value == ""):
            yield part, value
