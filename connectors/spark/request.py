"""What the options of `format("penstock")` ask for.

| option                  | meaning                                                                          |
| ----------------------- | -------------------------------------------------------------------------------- |
| queries                 | statements: CREATE STREAM, CREATE TABLE, CREATE QUERY                            |
| queriesPath             | a file of them, in place of `queries`                                            |
| query                   | the query whose results are wanted; may be left out if there is only one         |
| input.STREAM            | a file or pattern that a stream or table is read from, as after `-i`             |
| sharing, expiry, index  | as the engine's keywords                                                         |
| stateLocation           | streams: the folder in which the engine's state goes from batch to batch         |
| maxFilesPerTrigger      | reading a stream: how many new files of each input a batch takes; all if not set |
| outputLocation          | writing a stream: the folder of the results, a folder per query                  |
| stream                  | writing a stream: its name, if `queries` does not declare it                     |

Spark folds the case of options, as SQL does that of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.api import Engine, Query
from penstock.engine.rows.errors import QueryError, UsageError, did_you_mean

from .state_folder import SCHEME, path_of_file

INPUT = "input."
ENGINE_OPTIONS = ("sharing", "expiry", "index")
KNOWN = (
    "queries", "queriesPath", "query", "stateLocation", "maxFilesPerTrigger", "outputLocation", "stream",
    *ENGINE_OPTIONS,
)  # fmt: skip
SPARKS_OWN = ("checkpointlocation",)
"""Options that Spark reads and passes on as well."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options that are known to be understood; what they name is looked up when an engine is made."""

    sql: str
    query: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    """By stream or table, in lower case: a file or pattern."""
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    state_location: str | None = None
    output_location: str | None = None
    max_files: int | None = None
    stream: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Request:
        """The request in these options; UsageError for one that is not known."""
        known = {name.lower(): name for name in KNOWN}
        given: dict[str, str] = {}
        inputs: dict[str, str] = {}
        for name, value in options.items():
            if name.lower().startswith(INPUT):
                inputs[name.lower().removeprefix(INPUT)] = value
            elif name.lower() in SPARKS_OWN:
                continue
            elif name.lower() in known:
                given[known[name.lower()]] = value
            else:
                hint = did_you_mean(name, [*KNOWN, "input.STREAM"]) or ""
                raise UsageError(f"Expected an option of Penstock, found `{name}`. {hint}".rstrip())
        return cls(
            read_statements(given),
            given.get("query"),
            inputs,
            {name: given[name] for name in ENGINE_OPTIONS if name in given},
            given.get("stateLocation"),
            given.get("outputLocation"),
            read_count("maxFilesPerTrigger", given.get("maxFilesPerTrigger")),
            given.get("stream"),
        )

    def engine(self, late: str = "error") -> Engine:
        """An engine with the statements executed; `late`: what becomes of late rows if nobody says so."""
        engine = Engine(late=late, **self.engine_options)
        engine.execute(self.sql)
        if not engine.queries:
            raise QueryError("Expected at least one CREATE QUERY in the option `queries`, found none")
        return engine

    def only_query(self, engine: Engine) -> Query:
        """The query that is asked for; the others are dropped, as nobody would read their results."""
        name = self.query or (next(iter(engine.queries)) if len(engine.queries) == 1 else None)
        known = ", ".join(f"`{one}`" for one in engine.queries)
        if name is None:
            raise UsageError(f"Expected the option `query` to name one of {known}, found none")
        if name.lower() not in {one.lower() for one in engine.queries}:
            raise UsageError(f"Expected the option `query` to name one of {known}, found `{name}`")
        wanted = engine.queries[name]
        for other in list(engine.queries.values()):
            if other.name != wanted.name:
                other.drop()
        return wanted

    def named_inputs(self, engine: Engine) -> dict[str, str]:
        """The pattern of each input by the name its stream or table was declared with."""
        declared = {name.lower(): name for name in (*engine.streams, *engine.tables)}
        found = self._declared(declared, "stream")
        read = dict.fromkeys(stream for query in engine.queries.values() for stream in query.streams)
        if not any(stream in found for stream in read):
            raise UsageError(f"Expected an input, found none; set the option `{INPUT}{next(iter(read))}`")
        return found

    def tables(self, declared: Iterable[str]) -> dict[str, str]:
        """The same where streams come from elsewhere and only tables are read from files."""
        return self._declared({name.lower(): name for name in declared}, "table")

    def _declared(self, declared: Mapping[str, str], what: str) -> dict[str, str]:
        found = {}
        for name, pattern in self.inputs.items():
            if name not in declared:
                hint = did_you_mean(name, declared.values()) or ""
                said = f"Expected a declared {what} in the option `{INPUT}{name}`, found `{name}`. {hint}"
                raise UsageError(said.rstrip())
            found[declared[name]] = pattern
        return found

    def require(self, option: str) -> str:
        """The folder that an option names."""
        value = {"stateLocation": self.state_location, "outputLocation": self.output_location}[option]
        if not value:
            raise UsageError(f"Expected the option `{option}`, a folder, for a stream; found none")
        scheme = SCHEME.match(value)
        if scheme is None:
            return value
        if scheme[1].lower() != "file":
            raise UsageError(f"Expected a folder that this machine mounts in `{option}`, found `{value}`")
        return path_of_file(value)


def read_statements(given: Mapping[str, str]) -> str:
    """The text of `queries`, or of the file `queriesPath`."""
    if ("queries" in given) == ("queriesPath" in given):
        found = "both" if "queries" in given else "neither"
        raise UsageError(f"Expected the option `queries` or `queriesPath`, found {found}")
    if "queries" in given:
        return given["queries"]
    path = given["queriesPath"]
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "bytes that are not text"
        raise UsageError(f"Expected a file of statements at `{path}`, found: {reason}") from None


def read_count(option: str, value: str | None) -> int | None:
    """A number of one or more, None if the option is not set."""
    if value is None:
        return None
    if not value.strip().isdecimal() or int(value) < 1:
        raise UsageError(f"Expected a number of 1 or more for the option `{option}`, found `{value}`")
    return int(value)
