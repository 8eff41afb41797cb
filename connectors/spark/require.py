"""What Spark needs in Python is there, in a version we know, or one line says what to install."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version

from penstock.engine.rows.errors import UsageError

LEAST = (4, 2)  # the first whose streams of a Python source have read limits
BESIDE = ("pandas", "google.protobuf")
"""What PySpark asks for when it runs functions on Arrow and keeps state, and does not bring."""
INSTALL = "pip install 'penstock[spark]'"


def require_pyspark() -> None:
    """Raises UsageError unless PySpark and what it needs is there, and PySpark is new enough."""
    if not is_installed("pyspark"):
        raise UsageError(f"Expected PySpark {written(LEAST)} or later, found none: {INSTALL}")
    found = pyspark_version()
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers and (int(numbers[1]), int(numbers[2])) < LEAST:
        raise UsageError(f"Expected PySpark {written(LEAST)} or later, found `{found}`: {INSTALL}")
    for name in BESIDE:
        if not is_installed(name):
            raise UsageError(f"Expected `{name}` beside PySpark, found none: {INSTALL}")


def is_installed(name: str) -> bool:
    """Whether a module can be imported; it is not."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # nor the package it is in
        return False


def pyspark_version() -> str:
    """Of the installed package, or of the one that a Spark on this machine has brought into the path."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        import pyspark

        return str(pyspark.__version__)


def written(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
