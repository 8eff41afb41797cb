"""Logic tests: text files of SQL, timed input and expected output, one comment line above each case.

    case a row and its partner meet            names the case; what follows belongs to it
    stream s (ts TIMESTAMP, k BIGINT)          declares a stream
    table t (k BIGINT)                         declares a table; rows are pushed to it like to a stream
    query q                                    starts a query
      SELECT k FROM s
    statement                                  any other SQL
      DROP QUERY q
    push s                                     rows, one per line, columns as declared; times in microseconds
      1 | 10
      3 | null
    advance 20
    close
    result q                                   what is new in q: names, then rows
      _ts | k
      1 | 10
    error LateError: Expected rows ...         the step before must fail so; `...` is any more text

Every case runs with each index, under a scheduler that rolls dice, and with its pushes cut into single rows:
the results must be the same; so do those of queries that EMIT CHANGES with each approach to expiry. Rows of
one `_ts` may come in any order; of changes, only what is left when those of one `_ts` have cancelled counts.
PENSTOCK_REWRITE=1 writes the results and errors that came into the files, for review.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.flow.scheduler import Shuffled
from penstock.engine.indexes.build import INDEX_KINDS

REWRITE = bool(os.environ.get("PENSTOCK_REWRITE"))
FILES = sorted((Path(__file__).parent / "logic").glob("*.test"))
VARIANTS = ("auto", *INDEX_KINDS, "shuffled 1", "shuffled 2", "single rows")
EXPIRY = ("ita", "nta", "time-message", "piggyback")


@dataclass
class Block:
    """A step of a case: its first line, the lines indented under it, comments and blank lines before it."""

    line: str
    number: int
    before: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    @property
    def verb(self) -> str:
        return self.line.split(" ", 1)[0]

    @property
    def rest(self) -> str:
        return self.line.partition(" ")[2].strip()

    @property
    def text(self) -> str:
        return "\n".join(line[2:] if line.startswith("  ") else line for line in self.body)


@dataclass
class Case:
    """A named run of blocks."""

    path: Path
    title: Block
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.title.rest

    @property
    def is_changing(self) -> bool:
        """Whether a query of it gives changes."""
        return any(block.verb == "query" and "EMIT CHANGES" in block.text for block in self.blocks)

    def query(self, name: str = "q") -> str:
        """The text of one of its queries."""
        return next(block.text for block in self.blocks if block.line == f"query {name}")


def read_cases(path: Path) -> tuple[list[Case], list[str]]:
    """The cases of a file, and the lines after the last."""
    cases: list[Case] = []
    before: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            before.append(line)
            continue
        if line.startswith("  "):
            assert cases and not before, f"{path.name}:{number}: a line indented under nothing"
            (cases[-1].blocks or [cases[-1].title])[-1].body.append(line)
            continue
        block, before = Block(line, number, before), []
        if block.verb == "case":
            cases.append(Case(path, block))
        else:
            assert cases, f"{path.name}:{number}: `{line}` stands before the first case"
            cases[-1].blocks.append(block)
    return cases, before


class Player:
    """An engine that plays the steps of a case."""

    def __init__(self, variant: str) -> None:
        kind, _, seed = variant.partition(" ")
        index = variant if variant in INDEX_KINDS else "auto"
        scheduler = Shuffled(int(seed), 4) if kind == "shuffled" else None
        expiry = variant if variant in EXPIRY else "auto"
        self.engine = penstock.Engine(index=index, expiry=expiry, scheduler=scheduler)
        self._cut = variant == "single rows"

    def play(self, block: Block, fails: bool = False) -> None:
        """A step that gives nothing back; raises what the engine raises. `fails`: it is expected to."""
        match block.verb:
            case "stream":
                self.engine.execute(f"CREATE STREAM {block.rest}")
            case "table":
                self.engine.execute(f"CREATE TABLE {block.rest}")
            case "statement":
                self.engine.execute(block.text)
            case "query":
                self.engine.query(block.text, name=block.rest)
            case "push":
                table = self._read_rows(block)
                size = 1 if self._cut and not fails else max(1, table.num_rows)
                for start in range(0, max(1, table.num_rows), size):
                    self.engine.push(block.rest, table.slice(start, size))
            case "advance":
                self.engine.advance(int(block.rest))
            case "close":
                self.engine.close()
            case verb:
                raise AssertionError(f"line {block.number}: unknown step `{verb}`")
        self.engine._runtime._check()

    def result(self, block: Block) -> list[str]:
        """What is new in a query, as the lines of a result block."""
        table = self.engine.queries[block.rest].results()
        columns = [[write_value(value) for value in column] for column in table.columns]
        return [
            " | ".join(table.schema.names),
            *(" | ".join(row) for row in zip(*columns, strict=True)),
        ]

    def _read_rows(self, block: Block) -> pa.Table:
        schema = {**self.engine.streams, **self.engine.tables}.get(block.rest)
        if schema is None:
            return pa.table({})
        rows = [split_row(line) for line in block.body]
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [
            pa.array([read_value(value, one.type) for value in values], one.type)
            for values, one in zip(columns, schema, strict=True)
        ]
        return pa.table(arrays, schema=schema)


def split_row(line: str) -> list[str]:
    """Cells between bars; a bar inside quotes does not count."""
    return [cell.strip() for cell in re.findall(r"(?:^|\|)((?:'(?:[^']|'')*'|[^|'])*)", line.strip())]


def read_value(text: str, type_: pa.DataType) -> Any:
    """A cell as a value: null, 'quoted text', or what the column's type reads."""
    if text == "null":
        return None
    if pa.types.is_string(type_):
        return text[1:-1].replace("''", "'") if text.startswith("'") else text
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[text]
    return float(text) if pa.types.is_floating(type_) else int(text)


def write_value(value: pa.Scalar) -> str:
    """A value as a cell."""
    if not value.is_valid:
        return "null"
    if pa.types.is_timestamp(value.type):
        return str(value.value)
    plain = value.as_py()
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, str):
        is_plain = plain.isprintable() and plain == plain.strip() and plain not in ("", "null")
        return plain if is_plain and not set("|'") & set(plain) else "'" + plain.replace("'", "''") + "'"
    return str(plain)


def attempt(player: Player, block: Block, fails: bool) -> str | None:
    """Play a step: what it fails with, None if it does not."""
    try:
        player.play(block, fails)
    except penstock.PenstockError as error:
        return f"{type(error).__name__}: {error}"
    return None


def play_case(case: Case, variant: str) -> Iterator[tuple[Block, list[str] | str | None]]:
    """Each step with what came of it: lines for a result, the error or None for all others."""
    player = Player(variant)
    for place, block in enumerate(case.blocks):
        following = case.blocks[place + 1] if place + 1 < len(case.blocks) else None
        fails = following is not None and following.verb == "error"
        if block.verb == "result":
            yield block, player.result(block)
        elif block.verb != "error":
            yield block, attempt(player, block, fails)


def is_expected(came: str | None, expected: str | None) -> bool:
    """Whether a step's error is the one written; both None: none was written and none came."""
    if came is None or expected is None or not expected.endswith("..."):
        return came == expected
    return came.startswith(expected.removesuffix("...").rstrip())


def errors_written(case: Case) -> dict[int, str]:
    """The error expected of each block, by the block's line number."""
    pairs = zip(case.blocks, case.blocks[1:], strict=False)
    return {block.number: after.rest for block, after in pairs if after.verb == "error"}


def rows_by_ts(lines: list[str]) -> list[tuple[str, Counter[str]]]:
    """Rows in the order of their times, those of one time as a multiset."""
    grouped: list[tuple[str, Counter[str]]] = []
    for line in lines:
        ts = line.split(" | ", 1)[0]
        if not grouped or grouped[-1][0] != ts:
            grouped.append((ts, Counter()))
        grouped[-1][1][line] += 1
    return grouped


def without_cancelled(lines: list[str]) -> list[str]:
    """Rows of changes without pairs of `ts | 1 | row` and `ts | -1 | row`."""
    net: Counter[tuple[str, str]] = Counter()
    for line in lines:
        ts, diff, row = line.split(" | ", 2)
        net[ts, row] += int(diff)
    return [
        f"{ts} | {1 if count > 0 else -1} | {row}"
        for (ts, row), count in net.items()
        for _ in range(abs(count))
    ]


def check_case(case: Case, variant: str) -> None:
    """Every result and error is the expected one."""
    expected = errors_written(case)
    for block, came in play_case(case, variant):
        where = f"{case.path.name}:{block.number} ({variant})"
        if isinstance(came, list):
            written = [line.strip() for line in block.body]
            assert came[0] == written[0], f"{where}: other columns"
            rows, expected_rows = came[1:], written[1:]
            if " _diff |" in written[0]:
                rows, expected_rows = without_cancelled(rows), without_cancelled(expected_rows)
            assert rows_by_ts(rows) == rows_by_ts(expected_rows), where
        else:
            written_error = expected.get(block.number)
            assert is_expected(came, written_error), f"{where}: {came!r} came, {written_error!r} was expected"


def rewrite_case(case: Case) -> list[str]:
    """The case's lines with what came in place of what was expected."""
    lines = [*case.title.before, case.title.line, *case.title.body]
    expected = errors_written(case)
    for block, came in play_case(case, "auto"):
        body = [f"  {line}" for line in came] if isinstance(came, list) else block.body
        lines += [*block.before, block.line, *body]
        if isinstance(came, str):
            kept = expected.get(block.number)
            lines.append(f"error {kept if is_expected(came, kept) else came}")
    return lines


ALL_CASES = [case for path in FILES for case in read_cases(path)[0]]


@pytest.mark.skipif(REWRITE, reason="expectations are being rewritten")
@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: f"{case.path.stem}: {case.name}")
def test_logic(case: Case) -> None:
    for variant in (*VARIANTS, *(EXPIRY if case.is_changing else ())):
        check_case(case, variant)


if REWRITE:

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_rewrite_logic(path: Path) -> None:
        cases, after = read_cases(path)
        lines = [line for case in cases for line in rewrite_case(case)] + after
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.skipif(REWRITE, reason="expectations are being rewritten")
def test_every_case_has_a_comment_and_checks_something() -> None:
    names = [(case.path, case.name) for case in ALL_CASES]
    assert len(set(names)) == len(names), "two cases of one name in a file"
    for case in ALL_CASES:
        assert any(line.startswith("# ") for line in case.title.before), f"{case.path.name}: {case.name}"
        assert any(block.verb in ("result", "error") for block in case.blocks), case.name


def test_runner_sees_a_wrong_expectation(tmp_path: Path) -> None:
    """The runner itself: another value, another order in time, a row more, an error that does not come."""
    good = "case c\nstream s (ts TIMESTAMP, k BIGINT)\nquery q\n  SELECT k FROM s\npush s\n  1 | 5\n  2 | 6\n"
    path = tmp_path / "a.test"

    def check(expected: str) -> None:
        path.write_text(good + expected)
        check_case(read_cases(path)[0][0], "auto")

    check("result q\n  _ts | k\n  1 | 5\n  2 | 6\n")
    for wrong in ("1 | 5\n  2 | 7", "2 | 6\n  1 | 5", "1 | 5\n  2 | 6\n  2 | 6", "1 | 5"):
        with pytest.raises(AssertionError):
            check(f"result q\n  _ts | k\n  {wrong}\n")
    with pytest.raises(AssertionError):
        check("result q\n  _ts | k2\n  1 | 5\n  2 | 6\n")
    with pytest.raises(AssertionError):
        check("error LateError: never\n")
