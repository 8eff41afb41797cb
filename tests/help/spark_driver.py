"""A driver for tests that kill: all ways through Spark over the streams of a folder, on a cluster.

    python spark_driver.py FOLDER MASTER WAY...

In batch 1 and in batch 2 each way waits, between writing and Spark's commit, for the file `go-1`, `go-2`; a
file `held-<way>-<batch>` says that it waits.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

from spark_help import QUICK, run_to_end
from spark_ways import prepare

from penstock.connectors.spark import local_session

FOLDER = Path(sys.argv[1])
WAITING_S = 400


def hold(way: str, batch_id: int) -> None:
    if batch_id in (1, 2):
        (FOLDER / f"held-{way}-{batch_id}").touch()
        for _ in range(WAITING_S * 20):
            if (FOLDER / f"go-{batch_id}").exists():
                return
            time.sleep(0.05)
        raise AssertionError("nobody has killed this driver")


def main() -> None:
    settings = {**QUICK, "spark.master": sys.argv[2], "spark.executor.memory": "700m"}
    spark = local_session(settings=settings)

    def run(writer: Any) -> None:
        # Spark looks for formats of Python's in the session of the thread, which a new thread has not.
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
        run_to_end(writer)

    running = []
    for way in sys.argv[3:]:  # one by one: Spark gives its Python processes ten seconds to start
        writer = prepare(spark, way, FOLDER, hold)
        running.append(threading.Thread(target=run, args=[writer]))
        running[-1].start()
        while not (FOLDER / f"held-{way}-1").exists() and running[-1].is_alive():
            time.sleep(0.05)
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main()
