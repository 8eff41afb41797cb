"""The one place that says how kernels are compiled.

`@kernel` compiles on the first call and keeps the machine code on disk, so that only the first run on a
machine waits. Nothing is checked inside a kernel: its caller has validated what it passes. The GIL is
released, division follows NumPy. With NUMBA_DISABLE_JIT=1 the same functions run as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = __name__.partition(".")[0] + "."

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile `function` for the types it is called with, cached on disk."""
    return numba.njit(**OPTIONS)(function)


def part(function: Function) -> Function:
    """Compile `function` to be called by kernels; the compiler may or may not expand it there."""
    return numba.njit(**OPTIONS)(function)


def expand(function: Function) -> Function:
    """Put the body of `function` in place of every call: for what runs per row. Compiles longer."""
    return numba.njit(inline="always", **OPTIONS)(function)


def on_compile(callback: Callable[[], None]) -> None:
    """Call back whenever one of our kernels is about to be compiled, not when its machine code is on disk."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            if event.data["dispatcher"].py_func.__module__.startswith(PACKAGE):
                callback()

        def on_end(self, _: event.Event) -> None:
            pass

    event.register("numba:compile", Listener())
