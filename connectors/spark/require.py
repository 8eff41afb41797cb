"""PySpark is there, in a version we know, or one line says what to install."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import version

from penstock.engine.errors import UsageError

LEAST = (4, 1)
INSTALL = "pip install 'penstock[spark]'"


def require_pyspark() -> None:
    """Raises UsageError unless PySpark can be imported and is new enough; imports nothing of it."""
    if importlib.util.find_spec("pyspark") is None:
        raise UsageError(f"Expected PySpark {written(LEAST)} or later, found none: {INSTALL}")
    found = version("pyspark")
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers and (int(numbers[1]), int(numbers[2])) < LEAST:
        raise UsageError(f"Expected PySpark {written(LEAST)} or later, found `{found}`: {INSTALL}")


def written(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
