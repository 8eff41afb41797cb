"""The stock parser's nodes that can stand in an expression, by the name of their class.

NODES has one entry for each kind that is bound: the ExpressionBinder's method, and the parts it reads; a part
that is there but not listed is refused. By name and not by class, so that a kind the installed stock parser
does not have is simply never met.
"""

from __future__ import annotations

COMPARISONS = {
    "EQ": "equal",
    "NEQ": "not_equal",
    "LT": "less",
    "LTE": "less_equal",
    "GT": "greater",
    "GTE": "greater_equal",
    "NullSafeEQ": "is_not_distinct",
    "NullSafeNEQ": "is_not_distinct",
}
# What NOT makes of a comparison. NULL stays NULL; all values have an order, NaN too.
OPPOSITES = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
OPERATORS = {
    "Add": ("add", "+"),
    "Sub": ("subtract", "-"),
    "Mul": ("multiply", "*"),
    "Div": ("divide", "/"),
    "IntDiv": ("integer_divide", "//"),
    "Mod": ("modulo", "%"),
    "Like": ("like", "LIKE"),
    "ILike": ("ilike", "ILIKE"),
}
# NOT before one of these may stand in the node itself.
NEGATABLE = frozenset({"Like", "ILike", "In", "Between", "Is"})
REFUSED = {
    "Subquery": "A sub-query as a value",
    "Select": "A sub-query as a value",
    "Exists": "EXISTS other than as a condition of WHERE joined by AND",
    "Window": "A window function (OVER)",
    "Filter": "FILTER after an aggregate",
    "WithinGroup": "WITHIN GROUP",
    "Bracket": "An index in `[...]`",
    "Array": "An array",
    "Tuple": "A list in brackets as a value",
    "Placeholder": "A parameter",
    "Parameter": "A parameter",
    "SessionParameter": "A parameter",
    "Any": "ANY",
    "All": "ALL",
    "Escape": "ESCAPE",
    "TryCast": "TRY_CAST",
    "Dot": "A name of more than two parts",
    "Star": "`*` inside an expression",
    "Lambda": "A lambda",
    "Collate": "COLLATE",
    "AtTimeZone": "AT TIME ZONE",
    "Xor": "XOR",
    "SimilarTo": "SIMILAR TO",
    "Alias": "An alias inside an expression",
    "Rollup": "ROLLUP",
    "Cube": "CUBE",
    "GroupingSets": "GROUPING SETS",
}
REFUSED_HINTS = {
    "Subquery": "Join with it: FROM s, (SELECT ...) AS a",
    "Select": "Join with it: FROM s, (SELECT ...) AS a",
    "Filter": "Write CASE WHEN ... THEN ... END inside the aggregate",
    "Any": "Write EXISTS (SELECT ... WHERE ...) instead",
    "All": "Write NOT EXISTS (SELECT ... WHERE ...) instead",
}

_BINARY = ("this", "expression")
NODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Column": ("_column", ("this", "table")),
    "Literal": ("_literal", ("this", "is_string")),
    "Boolean": ("_boolean", ("this",)),
    "Null": ("_null", ()),
    "Interval": ("_interval", ("this", "unit", "fraction_in_string")),
    "Paren": ("_paren", ("this",)),
    "And": ("_connective", _BINARY),
    "Or": ("_connective", _BINARY),
    "Not": ("_not", ("this",)),
    "Between": ("_between", ("this", "low", "high")),
    "In": ("_in", ("this", "expressions")),
    "Is": ("_is", _BINARY),
    "Neg": ("_negate", ("this",)),
    "DPipe": ("_concat_operator", (*_BINARY, "safe")),
    "Concat": ("_concat", ("expressions", "safe", "coalesce")),
    "Log": ("_log", _BINARY),
    "Trim": ("_trim", ("this", "expression", "position")),
    "Coalesce": ("_spread", ("this", "expressions", "is_nvl", "is_null")),
    "Greatest": ("_spread", ("this", "expressions", "ignore_nulls")),
    "Least": ("_spread", ("this", "expressions", "ignore_nulls")),
    "Nullif": ("_spread", _BINARY),
    "Case": ("_case", ("this", "ifs", "default")),
    "If": ("_if", ("this", "true", "false")),
    "Extract": ("_extract", _BINARY),
    "DateTrunc": ("_date_trunc", ("this", "unit")),
    "TimestampTrunc": ("_date_trunc", ("this", "unit")),
    "Cast": ("_explicit_cast", ("this", "to")),
    "Anonymous": ("_named", ("this", "expressions")),
    **dict.fromkeys(COMPARISONS, ("_comparison", _BINARY)),
    **dict.fromkeys(OPERATORS, ("_operator", (*_BINARY, "typed", "safe"))),
}
