"""Type names: as CREATE spells them, and as the stock parser reads them in a cast."""

from __future__ import annotations

import re

from penstock.engine.rows.errors import BindError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.read.source import fail
from penstock.optimizer.read.statements import WrittenColumn

from .bind_context import BindContext, Tree

TYPE_NAMES: dict[str, SqlType] = {
    name: type_
    for type_, names in (
        (SqlType.BIGINT, "BIGINT INT INTEGER SMALLINT TINYINT"),
        (SqlType.DOUBLE, "DOUBLE FLOAT REAL"),
        (SqlType.BOOLEAN, "BOOLEAN BOOL"),
        (SqlType.VARCHAR, "VARCHAR TEXT STRING"),
        (SqlType.TIMESTAMP, "TIMESTAMP"),
    )
    for name in names.split()
} | {"DOUBLE PRECISION": SqlType.DOUBLE, "TIMESTAMP WITHOUT TIME ZONE": SqlType.TIMESTAMP}
TYPES = "BIGINT, DOUBLE, BOOLEAN, VARCHAR or TIMESTAMP"
# A TIMESTAMP holds microseconds: six digits, and no fewer.
_PRECISION = re.compile(r"TIMESTAMP\((\d+)\)( WITHOUT TIME ZONE)?")


def read_column_type(column: WrittenColumn) -> SqlType:
    """The type of a declared column."""
    name = column.type_name.upper()
    digits = _PRECISION.fullmatch(name)
    type_ = SqlType.TIMESTAMP if digits and digits[1] == "6" else TYPE_NAMES.get(name)
    if type_ is None:
        message = f"Expected {TYPES} as the type of `{column.name}`, found `{column.type_name}`"
        hint = "A TIMESTAMP has six digits of a second" if digits else None
        raise fail(BindError, message, column.type_position, hint)
    return type_


def read_cast_type(context: BindContext, to: Tree, node: Tree) -> SqlType:
    """The type a cast names."""
    name = str(getattr(to.this, "value", to.this)).upper()
    written = str(to.args.get("kind") or name)
    type_ = TYPE_NAMES.get(name)
    if type_ is None:
        raise context.error(BindError, f"Expected {TYPES} as the type of a cast, found `{written}`", node)
    if to.args.get("expressions") or to.args.get("values"):
        message = f"Expected {TYPES} as the type of a cast, found `{written}` with a length"
        raise context.error(BindError, message, node)
    context.read_only(to, ("this", "nested", "kind"))
    return type_
