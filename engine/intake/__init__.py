"""How rows come in: checked, converted, put in order, judged late or too far ahead, cut into batches.

A line belongs here if it is about what a user gives, before any query sees it. A row that is refused is
refused here.
Imported by who runs queries, and by what reads files and Spark, so that a push and a file mean the same.
Read first: `ingest.py`; then `convert.py`, what becomes what.

    any table -> sound? -> columns as declared -> times and units -> late, ahead? -> in order -> queues
"""
