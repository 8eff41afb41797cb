"""Which kernels there are, and which tests say that they compare them with naive twins.

A test that does is marked `@pytest.mark.twin("net.cancel_few")`: file and name of each kernel that it runs,
itself or through a class that does nothing else. conftest.py sees to it that it really calls them.
"""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from penstock.engine.kernels.rows import net

TESTS = Path(__file__).parents[1]
KERNELS = TESTS.parent / "engine" / "kernels"
MARK = "pytest.mark.twin"
JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
COMPILED: Any = type(net.cancel_few)
"""What kernels are, with the JIT on."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def all_kernels() -> list[str]:
    """`file.name` of every function under `@kernel`."""
    return [
        f"{path.stem}.{node.name}"
        for path in sorted(KERNELS.rglob("*.py"))
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator) == "kernel" for decorator in node.decorator_list)
    ]


def marked_kernels() -> dict[str, list[str]]:
    """The files with tests marked as twins of each kernel."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(tree_of(path)) if MARK in path.read_text() else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == MARK:
                for argument in node.args:
                    found.setdefault(ast.literal_eval(argument), []).append(path.name)
    return found


def kernel_of(name: str) -> Any:
    """By file and name: no two rooms have a file of the same name."""
    file, function = name.split(".")
    (path,) = KERNELS.rglob(f"{file}.py")
    room = ".".join(path.parent.relative_to(KERNELS).parts)
    return getattr(importlib.import_module(f"penstock.engine.kernels.{room}.{file}"), function)


@contextmanager
def watched_calls() -> Iterator[set[int]]:
    """The ids of the kernels that Python calls meanwhile. Not with the JIT off."""
    called: set[int] = set()
    run = COMPILED.__call__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        called.add(id(self))
        return run(self, *arguments, **named)

    COMPILED.__call__ = call
    try:
        yield called
    finally:
        del COMPILED.__call__
