"""From the words of a command line to an engine with its queries and the feeds of its streams."""

from __future__ import annotations

import contextlib
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from penstock.compile_notice import compile_notice
from penstock.engine.rows.errors import PenstockWarning, QueryError, UsageError, did_you_mean

if TYPE_CHECKING:
    from penstock.api import Engine
    from penstock.connectors.files_read import FilesRead
    from penstock.connectors.merge import Feed
    from penstock.connectors.read_rules import ReadRules
    from penstock.engine.intake.time_units import TimeUnit

STANDARD_INPUT = "-"
SQL_TEXT = re.compile(r"\s*(CREATE|SELECT|WITH|DROP)\s", re.IGNORECASE)
SHOWN_CHARACTERS = 60


def note(text: str) -> None:
    """One line beside the results, on standard error."""
    click.echo(text, err=True)


def silent(_: str) -> None:
    """Nothing is said."""


def load_engine(
    queries: str,
    sharing: str,
    index: str,
    expiry: str = "auto",
    quiet: bool = False,
    modes: str | Mapping[str, str] = "auto",
    optimize: str = "exhaustive",
    **memory: Any,
) -> Engine:
    """An engine with the statements of the file `queries` executed; errors name the file. memory: keywords of
    the engine that say how much it may take."""
    from penstock.api import Engine

    sql = _read_statements(queries)
    compile_notice.say = silent if quiet else note
    engine = Engine(sharing=sharing, index=index, expiry=expiry, modes=modes, optimize=optimize, **memory)
    try:
        with _warnings_in_a_line():
            engine.execute(sql)
    except QueryError as error:
        error.args = (error.text(queries),)
        raise
    if not engine.queries:
        raise QueryError(f"Expected at least one CREATE QUERY in `{queries}`, found none")
    return engine


@contextlib.contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """What is said of a statement that is taken all the same; without the Python that warned."""
    found: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", PenstockWarning)
            yield
    finally:
        for one in found:
            if issubclass(one.category, PenstockWarning):
                note(f"Warning: {one.message}")
            else:
                warnings.showwarning(one.message, one.category, one.filename, one.lineno)


def _read_statements(path: str) -> str:
    try:
        if path == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        if SQL_TEXT.match(path):
            shown = textwrap.shorten(path, SHOWN_CHARACTERS, placeholder=" ...")
            raise UsageError(
                f"Expected a file of statements, found the text `{shown}`; put the statements into a file"
            ) from None
        raise UsageError(f"Expected a file of statements at `{path}`, found: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(
            f"Expected a file of statements at `{path}`, found bytes that are not text"
        ) from None


def match_inputs(engine: Engine, inputs: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
    """The files of every `-i`, by the declared name of their stream or table."""
    from penstock.connectors.inputs import parse_input

    declared = {name.lower(): name for name in (*engine.streams, *engine.tables)}
    files: dict[str, list[tuple[str, ...]]] = {}
    for text in inputs:
        try:
            spec = parse_input(text)
        except UsageError as error:
            known = ", ".join(f"`{name}`" for name in declared.values())
            raise UsageError(f"{error}; declared: {known}") from None
        name = declared.get(spec.stream.lower())
        if name is None:
            hint = did_you_mean(spec.stream, declared.values()) or ""
            raise UsageError(
                f"Expected a declared stream in `-i {text}`, found `{spec.stream}`. {hint}".rstrip()
            )
        files.setdefault(name, []).append(spec.paths)
    if sum(paths.count(STANDARD_INPUT) for own in files.values() for paths in own) > 1:
        raise UsageError("Expected `-` (standard input) for one input, found it for several")
    return files


def find_files_read(engine: Engine, queries: str, inputs: Sequence[str]) -> FilesRead:
    """The files that the queries, streams and tables are read from."""
    from penstock.connectors.files_read import FilesRead

    files = match_inputs(engine, inputs).values()
    return FilesRead([queries, *(path for own in files for paths in own for path in paths)])


def match_units(engine: Engine, units: Sequence[str]) -> dict[str, TimeUnit]:
    """What every `--time-unit` says, by the declared name of its stream or table."""
    from penstock.engine.intake.time_units import UNIT_WORDS

    declared = {name.lower(): name for name in (*engine.streams, *engine.tables)}
    found: dict[str, TimeUnit] = {}
    for text in units:
        stream, _, word = (part.strip() for part in text.partition("="))
        unit = next((one for one, name in UNIT_WORDS.items() if word.lower() in (one, name.lower())), None)
        if not stream or unit is None:
            raise UsageError(f"Expected `--time-unit stream=unit`, the unit s, ms, us or ns, found `{text}`")
        name = declared.get(stream.lower())
        if name is None:
            hint = did_you_mean(stream, declared.values()) or ""
            message = f"Expected a declared stream in `--time-unit {text}`, found `{stream}`. {hint}"
            raise UsageError(message.rstrip())
        if found.setdefault(name, unit) != unit:
            raise UsageError(f"Expected one --time-unit of `{name}`, found `{found[name]}` and `{unit}`")
    return found


def open_feeds(
    engine: Engine, inputs: Sequence[str], units: Sequence[str] = (), rules: ReadRules | None = None
) -> list[Feed]:
    """A feed per stream that has an input; all first files are open, so what is wrong with them is known."""
    from penstock.connectors.open_inputs import open_feeds
    from penstock.connectors.read_rules import STRICT

    return open_feeds(engine, match_inputs(engine, inputs), match_units(engine, units), rules or STRICT)


def load_tables(
    engine: Engine, inputs: Sequence[str], units: Sequence[str] = (), rules: ReadRules | None = None
) -> list[str]:
    """Read the tables that have an input, whole, before any stream; their names."""
    from penstock.connectors.open_inputs import load_tables
    from penstock.connectors.read_rules import STRICT

    return load_tables(engine, match_inputs(engine, inputs), match_units(engine, units), rules or STRICT)


def streams_read(engine: Engine) -> dict[str, tuple[str, ...]]:
    """The streams each query reads."""
    return {name: query.streams for name, query in engine.queries.items()}
