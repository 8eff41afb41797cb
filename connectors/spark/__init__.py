"""Spark in and out, through PySpark: input from its streams, results back as DataFrames.

Loaded only by whoever asks for it: `import penstock` knows nothing of Spark.
"""

from penstock.connectors.spark.require import require_pyspark

require_pyspark()
