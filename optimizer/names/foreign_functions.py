"""Functions of other systems, and what is written here instead; for messages."""

from __future__ import annotations

from penstock.optimizer.read.refuse_foreign import JSON, OVER, THE_TIME

_TEXT_OF_TIME = "Write EXTRACT(YEAR FROM ts), DATE_TRUNC('day', ts) or CAST(ts AS VARCHAR)"
_HOPPING = "Write HOP BY 5 MINUTES at the end of the query, and a window behind the stream"
_MATCHING = "Write LIKE, or STARTS_WITH, ENDS_WITH or CONTAINS"
_BY_CHANCE = "What a query answers depends on its rows alone"
_DIFFERENCE = "Times are subtracted, `b - a`, which is an INTERVAL"

_HINTS = {
    THE_TIME: "NOW GETDATE SYSDATE SYSTIMESTAMP TODAY CURRENT_TIMESTAMP CURRENT_DATE CURRENT_TIME",
    OVER: "LAG LEAD ROW_NUMBER RANK DENSE_RANK NTILE FIRST_VALUE LAST_VALUE",
    JSON: "JSON_EXTRACT JSON_EXTRACT_SCALAR JSON_EXTRACT_STRING JSON_VALUE PARSE_JSON",
    _TEXT_OF_TIME: "STRFTIME STRPTIME DATE_FORMAT FORMAT_TIMESTAMP TO_CHAR TO_TIMESTAMP TO_DATE DATE",
    _HOPPING: "TUMBLE TUMBLE_START TUMBLE_END HOP HOP_START HOP_END SESSION TIME_BUCKET DATE_BIN WINDOW",
    _MATCHING: "REGEXP_MATCHES REGEXP_LIKE REGEXP_EXTRACT REGEXP_REPLACE RLIKE",
    _BY_CHANCE: "RANDOM RAND UUID GEN_RANDOM_UUID",
    _DIFFERENCE: "DATEDIFF DATE_DIFF TIMESTAMPDIFF AGE DATE_SUB",
    "Write `ts + INTERVAL '5' MINUTE`": "DATEADD DATE_ADD TIMESTAMPADD",
    "Write SUBSTRING(text, 1, n)": "LEFT",
    "Write SUBSTRING(text, LENGTH(text) - n + 1, n)": "RIGHT",
    "Write `x IS NULL`": "ISNULL",
    "Did you mean `AVG`?": "AVERAGE MEAN",
    "Write SUM(CASE WHEN condition THEN 1 ELSE 0 END)": "COUNT_IF COUNTIF",
}
HINTS: dict[str, str] = {name: hint for hint, names in _HINTS.items() for name in names.split()}
