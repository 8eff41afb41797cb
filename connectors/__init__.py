"""Files in and out: Parquet, CSV, JSON lines and Arrow IPC, read in bounded batches and merged by time."""
