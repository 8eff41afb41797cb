"""Spark in and out, through PySpark: input from its streams, results back as DataFrames.

Loaded only by whoever asks for it: `import penstock` knows nothing of Spark.
"""

from .require import require_pyspark

require_pyspark()

from .scale_out import ScaledOut, scale_out  # noqa: E402
from .schema import declare_stream, spark_schema, sql_columns  # noqa: E402
from .session import local_session  # noqa: E402
from .sink import Sink, sink  # noqa: E402
from .source import PenstockSource, register  # noqa: E402
from .tag_streams import tag_streams  # noqa: E402

__all__ = [
    "PenstockSource",
    "ScaledOut",
    "Sink",
    "declare_stream",
    "local_session",
    "register",
    "scale_out",
    "sink",
    "spark_schema",
    "sql_columns",
    "tag_streams",
]
