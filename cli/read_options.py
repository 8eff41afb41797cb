"""Options that say what is done with rows that cannot be read, and the rules they make."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from .options import Bytes, Command

if TYPE_CHECKING:
    from penstock.connectors.files_read import FilesRead
    from penstock.connectors.read_rules import ReadRules

LEAST_RECORD = 1 << 10
MOST_RECORD = 1 << 30


def read_options(command: Command) -> Command:
    """They come as keywords for `make_rules`."""
    on_bad_row = click.option(
        "--on-bad-row",
        type=click.Choice(["stop", "skip"]),
        default="stop",
        show_default=True,
        help="Stop at a row that cannot be read, or leave it out and count it.",
    )
    bad_rows = click.option(
        "--bad-rows",
        metavar="FILE",
        help="Write rows left out here: file, row, reason, text; JSON lines if it ends in .jsonl, else CSV.",
    )
    allow_partial = click.option(
        "--allow-partial", is_flag=True, help="Leave out the last record of a text file that is cut off."
    )
    max_record = click.option(
        "--max-record",
        type=Bytes(LEAST_RECORD, MOST_RECORD),
        metavar="SIZE",
        help="Longest record of CSV with quotes in it.  [default: 1MB and 1,000 lines]",
    )
    return on_bad_row(bad_rows(allow_partial(max_record(command))))


def make_rules(
    tell: Callable[[str], None] | None,
    files_read: FilesRead,
    overwrite: bool,
    *,
    on_bad_row: str,
    bad_rows: str | None,
    allow_partial: bool,
    max_record: int | None,
) -> ReadRules:
    """The rules for reading; a file for bad rows is begun."""
    from penstock.connectors.bad_rows import BadRows
    from penstock.connectors.blocks import DEFAULT_LIMIT, RecordLimit
    from penstock.connectors.read_rules import ReadRules
    from penstock.engine.rows.errors import UsageError

    if bad_rows is not None:
        if on_bad_row != "skip":
            raise UsageError("Expected --on-bad-row skip with --bad-rows FILE, found that they stop the run")
        files_read.refuse(bad_rows)
        if os.path.lexists(bad_rows) and not overwrite:
            raise UsageError(f"Expected no file at `{bad_rows}`, found one; give --overwrite to replace it")
    left_out = BadRows(bad_rows) if on_bad_row == "skip" else None
    if bad_rows is not None:
        files_read.take(bad_rows, f"the bad rows in `{bad_rows}`")
    return ReadRules(
        limit=DEFAULT_LIMIT if max_record is None else RecordLimit(max_record, None),
        allow_partial=allow_partial,
        bad_rows=left_out,
        tell=tell,
    )
