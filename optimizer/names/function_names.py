"""What users call the functions: the stock parser's nodes, and the names it leaves as they are."""

from __future__ import annotations

from penstock.optimizer.read.source import words

from .functions import SIGNATURES

# Node -> the engine's function, the node's parts in the order of its arguments, and parts that say nothing.
FUNCTION_NODES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "Abs": ("abs", ("this",), ()),
    "Sign": ("sign", ("this",), ()),
    "Round": ("round", ("this", "decimals"), ()),
    "Floor": ("floor", ("this",), ()),
    "Ceil": ("ceil", ("this",), ()),
    "Sqrt": ("sqrt", ("this",), ()),
    "Ln": ("ln", ("this",), ()),
    "Exp": ("exp", ("this",), ()),
    "Pow": ("power", ("this", "expression"), ()),
    "Lower": ("lower", ("this",), ()),
    "Upper": ("upper", ("this",), ()),
    "Length": ("length", ("this",), ()),
    "Substring": ("substring", ("this", "start", "length"), ()),
    "Replace": ("replace", ("this", "expression", "replacement"), ()),
    "StartsWith": ("starts_with", ("this", "expression"), ()),
    "EndsWith": ("ends_with", ("this", "expression"), ()),
    "Contains": ("contains", ("this", "expression"), ()),
    "Year": ("year", ("this",), ()),
    "Month": ("month", ("this",), ()),
    "Day": ("day", ("this",), ()),
    "DayOfMonth": ("day", ("this",), ()),
    "Hour": ("hour", ("this",), ()),
    "Minute": ("minute", ("this",), ()),
    "Second": ("second", ("this",), ()),
    "DayOfWeek": ("day_of_week", ("this",), ()),
}

# Engine functions that may be called by their own name when the stock parser has no node for it.
NAMED_FUNCTIONS: dict[str, str] = {
    name: name for name in SIGNATURES if name not in ("not", "like", "ilike", "concat_operator")
}

# EXTRACT(part FROM ts).
TIME_PARTS: dict[str, str] = {
    "YEAR": "year",
    "MONTH": "month",
    "DAY": "day",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "DOW": "day_of_week",
    "DAYOFWEEK": "day_of_week",
    "EPOCH": "epoch",
}

# For `Did you mean`.
FUNCTION_NAMES = words(
    "ABS SIGN ROUND FLOOR CEIL SQRT LN LOG10 LOG2 EXP POWER LOWER UPPER LENGTH SUBSTRING TRIM LTRIM RTRIM "
    "REPLACE CONCAT STARTS_WITH ENDS_WITH CONTAINS GREATEST LEAST COALESCE NULLIF YEAR MONTH DAY HOUR MINUTE "
    "SECOND DAY_OF_WEEK EPOCH DATE_TRUNC EXTRACT IF CAST COUNT SUM AVG MIN MAX"
)
