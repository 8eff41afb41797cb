"""A Spark session on this machine alone, for examples, benches and tests; that of a cluster is the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .java import provide_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def local_session(cores: int = 2, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process, started if there is none, with as many tasks at a time as `cores`."""
    from pyspark.sql import SparkSession

    provide_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("penstock")
    for name, value in {
        **SETTINGS,
        "spark.default.parallelism": str(cores),
        "spark.sql.shuffle.partitions": str(cores),
        **(settings or {}),
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
