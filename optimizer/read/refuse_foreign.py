"""Refuses by name what other systems write and we do not have, before the stock parser takes it for another.

Where it is refused by token its place is true: the stock parser does not remember where a parameter or
CURRENT_TIMESTAMP stood, reads `js -> '$.a'` as a function, and stumbles in OVER (... BETWEEN ...) first.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.rows.errors import UnsupportedError

from .source import Source, Token, fail, word_of

THE_TIME = (
    "Time comes with the rows: compare `ts` with a constant, or write a window, as in `s [RANGE 5 MINUTES]`"
)
A_PARAMETER = "Write the value itself"
JSON = "JSON is not looked into: give what is asked for as columns"
OVER = "Windows stand behind streams, as in `s [ROWS 10]`; with GROUP BY an aggregate is one row per group"

# By the stock tokenizer's name for the token: what it is, and what to do.
_FOREIGN = {
    "PLACEHOLDER": ("A parameter", A_PARAMETER),
    "PARAMETER": ("A parameter", A_PARAMETER),
    "SESSION_PARAMETER": ("A parameter", A_PARAMETER),
    "ARROW": ("`->`", JSON),
    "DARROW": ("`->>`", JSON),
    "HASH_ARROW": ("`#>`", JSON),
    "DHASH_ARROW": ("`#>>`", JSON),
    "DAMP": ("`&&`", "Write AND"),
    "COLLATE": ("COLLATE", "Text is compared by its code points"),
    "TILDE": ("`~`", "Write LIKE, or STARTS_WITH, ENDS_WITH or CONTAINS"),
    "RLIKE": ("A regular expression", "Write LIKE, or STARTS_WITH, ENDS_WITH or CONTAINS"),
    **dict.fromkeys(
        (
            "CURRENT_TIMESTAMP",
            "CURRENT_DATE",
            "CURRENT_TIME",
            "CURRENT_DATETIME",
            "LOCALTIME",
            "LOCALTIMESTAMP",
        ),
        ("", THE_TIME),
    ),
}
_OPERAND_ENDS = frozenset({"VAR", "IDENTIFIER", "NUMBER", "STRING", "R_PAREN", "R_BRACKET", "END"})


def refuse_foreign(source: Source, tokens: Sequence[Token], index: int, clause: str) -> None:
    """Refuses the token at `index` if it is none of our language; `clause` is where it stands."""
    found = _foreign(tokens, index, clause)
    if found is not None:
        what, hint = found
        what = what or source.show(tokens[index])
        raise fail(UnsupportedError, f"{what} is not supported", source.position(tokens[index].start), hint)


def _foreign(tokens: Sequence[Token], index: int, clause: str) -> tuple[str, str] | None:
    token = tokens[index]
    kind, text = token.token_type.name, str(token.text)
    before = tokens[index - 1].token_type.name if index else ""
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    next_kind = "" if following is None else following.token_type.name
    touches = following is not None and following.start == token.end + 1
    is_operand = before in _OPERAND_ENDS
    if kind in _FOREIGN:
        # After AS and a dot it is a name.
        return None if before in ("ALIAS", "DOT") and text.isidentifier() else _FOREIGN[kind]
    if kind == "OVER" and before == "R_PAREN" and next_kind in ("L_PAREN", "VAR"):
        return "A window function (OVER)", OVER
    if kind == "VAR" and text.startswith("$"):
        return "A parameter", A_PARAMETER
    if kind == "COLON" and touches and before != "NUMBER" and (word_of(following) or next_kind == "NUMBER"):
        return ("`:`", JSON) if is_operand else ("A parameter", A_PARAMETER)
    if kind == "MOD" and touches and not is_operand and (word_of(following) == "S" or next_kind == "L_PAREN"):
        return "A parameter", A_PARAMETER
    if kind == "L_BRACE" and clause != "from":
        return "`{`", "If the text was to be filled in, write the value itself"
    if text == "`" and kind == "UNKNOWN":
        return "A name in backticks", 'Write names in double quotes: "name"'
    if word_of(token) == "TOP" and before in ("SELECT", "DISTINCT") and next_kind in ("NUMBER", "L_PAREN"):
        return "TOP", "A continuous query has no first rows; keep few by a window, as in `s [ROWS 10]`"
    return None
