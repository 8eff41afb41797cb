"""Every kernel has a naive twin: a test that is marked with its name, calls it and knows better.

A kernel without one is listed here by name. Write a test which draws its arguments and compares what it does
with plain Python, and mark it `@pytest.mark.twin("file.kernel")`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import conftest
import numpy as np
import pytest
from kernel_twins import COMPILED, JIT, KERNELS, all_kernels, kernel_of, marked_kernels, watched_calls

from penstock.engine.kernels.rows import net


def test_every_kernel_has_a_twin() -> None:
    kernels, marked = all_kernels(), marked_kernels()
    assert len(kernels) > 100, "kernels are not found any more"
    assert sorted(set(kernels) - set(marked)) == [], "kernels that no test compares with a naive twin"
    assert sorted(set(marked) - set(kernels)) == [], "twins of kernels that are not there"


def test_only_kernels_are_called_from_outside() -> None:
    """What is not listed as a kernel is a part of some: compiled by another decorator, called by kernels."""
    for path in KERNELS.rglob("*.py"):
        if path.stem not in ("jit", "__init__"):
            assert "njit" not in path.read_text(), f"{path.name} compiles without jit.py"


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_calls_are_seen() -> None:
    """Of a kernel by Python, and of no other; the names lead to what was compiled."""
    assert all(isinstance(kernel_of(name), COMPILED) for name in all_kernels())
    empty, bytes_ = np.empty(0, np.int64), np.empty(0, np.uint8)
    with watched_calls() as called:
        net.cancel_few(empty, np.empty(0, np.int8), empty, empty, bytes_, bytes_)
    assert called == {id(net.cancel_few)}
    net.cancel_many(empty, np.empty(0, np.int8), empty, empty, np.full(2, -1, np.int32), empty, bytes_)
    assert called == {id(net.cancel_few)}


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_a_mark_without_a_call_fails() -> None:
    item: Any = SimpleNamespace(iter_markers=lambda _: [SimpleNamespace(args=("net.cancel_few",))])
    call = conftest.pytest_runtest_call(item)
    next(call)
    with pytest.raises(pytest.fail.Exception, match=r"found none of .'net\.cancel_few'"):
        call.send(None)


@pytest.mark.skipif(not JIT, reason="this is the run with the JIT off")
def test_twins_with_the_jit_off() -> None:
    """As plain Python every access is checked: of the kernels that no file tests so by itself."""
    files = [f"test_{name}_kernels.py" for name in ("aggregate", "bag", "key", "member")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    folder = Path(__file__).parent
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
