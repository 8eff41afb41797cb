"""sqlglot comes as Python and, with `sqlglot[c]`, compiled: both read our statements alike.

The other tests run with what is installed. Where that is the compiled one, those of whole error messages run
here with the Python beside it; messages have positions in them, and go through every part of the parser.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlglot.parser

WITHOUT = """
import importlib.machinery as machinery
import sys

class Plain:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "sqlglot":
            return None
        loader = machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES
        found = (machinery.FileFinder(folder, loader).find_spec(name) for folder in path or sys.path)
        return next((spec for spec in found if spec is not None), None)

sys.meta_path.insert(0, Plain())
import pytest
import sqlglot.parser

assert sqlglot.parser.__file__.endswith(".py"), sqlglot.parser.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[1:]]))
"""


@pytest.mark.skipif(
    sqlglot.parser.__file__.endswith(".py"), reason="sqlglot[c] is not installed: all tests run without it"
)
def test_messages_without_the_compiled_parser() -> None:
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "test_query_errors.py"],
        cwd=tests, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-1000:]
