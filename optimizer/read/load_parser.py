"""The stock parser is loaded with the first statement, by one thread and whole.

Its modules import each other in circles, and Python lets a second thread that meets such a circle have a
module that is half loaded. Ours have no circles: for them Python's own lock for each module is enough.
"""

from __future__ import annotations

import threading

_loading = threading.Lock()
_is_loaded = False


def load_parser() -> None:
    """Return when all of it is there."""
    global _is_loaded
    if _is_loaded:
        return
    with _loading:
        import sqlglot.errors
        import sqlglot.expressions
        import sqlglot.parser
        import sqlglot.tokens  # noqa: F401

    _is_loaded = True
