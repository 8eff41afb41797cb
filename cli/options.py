"""Options that several commands have, spelled once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import click

from penstock.connectors.sizes import show_bytes

Command = TypeVar("Command", bound=Callable[..., Any])

SHARING = ("auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu")
EXPIRY = ("auto", "ita", "nta", "time-message", "piggyback")
MODES = ("auto", "DIDO", "DICO", "CICO", "CIDO")
OPTIMIZE = ("exhaustive", "heuristic", "none")
DISORDER = ("auto", "none", "msf", "dbf", "hybrid")
INDEXES = ("auto", "scan", "hash", "t-tree", "b+tree")


class Speed(click.ParamType):
    """`10x`, `0.5x` or `10`: seconds of stream time per second."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)[xX]?", str(value).strip())
        speed = float(found[1]) if found else 0.0
        if speed <= 0:
            self.fail(f"Expected a speed above 0 such as `10x`, found `{value}`", param, ctx)
        return speed


class Seconds(click.ParamType):
    """`5s`, `500ms`, `2min`, `1h` or `5`: a time above 0, in seconds."""

    name = "time"
    UNITS: ClassVar[dict[str, float]] = {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|min|h|)", str(value).strip().lower())
        seconds = float(found[1]) * self.UNITS[found[2]] if found else 0.0
        if seconds <= 0:
            self.fail(f"Expected a time above 0 such as `5s` or `500ms`, found `{value}`", param, ctx)
        return seconds


class Bytes(click.ParamType):
    """`64MB`, `1 GB`, `512kB` or a number of bytes."""

    name = "bytes"
    UNITS: ClassVar[dict[str, int]] = {"": 0, "b": 0, "kb": 10, "mb": 20, "gb": 30}

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(b|kb|mb|gb|)", str(value).strip().lower())
        size = int(float(found[1]) * (1 << self.UNITS[found[2]])) if found else 0
        if not self._least <= size <= self._most:
            bounds = f"from {show_bytes(self._least)} to {show_bytes(self._most)}"
            self.fail(f"Expected a size such as `64MB`, {bounds}, found `{value}`", param, ctx)
        return size


class ModeChoice(click.Choice):  # generic only from Click 8.2 on
    """Modes by name, checked where they are used."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        from penstock.options import KNOWN  # loads Numba: only when help is asked for

        return f"[{'|'.join(KNOWN[str(param.name)])}]"


class ModesChoice(ModeChoice):
    """One mode for all operators, or modes by the names of operators: `join 1=CICO,except 1=DIDO`."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"{super().get_metavar(param, ctx)[:-1]}|OPERATOR=MODE,...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or "=" not in value:
            return super().convert(value, param, ctx)
        found: dict[str, str] = {}
        for part in value.split(","):
            name, _, mode = (word.strip() for word in part.partition("="))
            if not (name and mode):
                self.fail(f"Expected modes such as `join 1=CICO,scan 2=DICO`, found `{part}`", param, ctx)
            if name in found:
                self.fail(f"Expected one mode of `{name}`, found `{found[name]}` and `{mode}`", param, ctx)
            found[name] = mode
        return found


class InputCommand(click.Command):
    """A command with -i that knows its commonest slip: a blank for the equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            for option, stream, file in zip(words, words[1:], words[2:], strict=False):
                if option in ("-i", "--input") and "=" not in stream and not file.startswith("-"):
                    text = f"{error.message.rstrip('.')}. Write -i {stream}={file}"
                    raise click.UsageError(text, ctx) from None
            raise


def queries_argument(command: Command) -> Command:
    return click.argument("queries", metavar="QUERIES.sql")(command)


def input_option(help_: str) -> Callable[[Command], Command]:
    return click.option("-i", "--input", "inputs", multiple=True, metavar="STREAM=FILE", help=help_)


def time_unit_option(command: Command) -> Command:
    return click.option(
        "--time-unit",
        "time_units",
        multiple=True,
        metavar="STREAM=UNIT",
        help="What integers in TIMESTAMP columns of a stream are: s, ms, us or ns; repeatable.",
    )(command)


def memory_options(command: Command) -> Command:
    """How much joins on ORDERED columns may keep in memory, and where the rest goes."""
    disorder = click.option(
        "--disorder",
        type=ModeChoice(DISORDER),
        default="auto",
        show_default=True,
        help="How joins on ORDERED columns keep within memory.",
    )
    limit = click.option("--memory-limit", metavar="SIZE", help="Of these joins: `200MB` or `100000 rows`.")
    spool = click.option("--spool", metavar="DIR", help="Where their rows go that need not be in memory.")
    most = click.option("--spool-limit", metavar="SIZE", help="Most bytes there, such as `10GB`.")
    return disorder(limit(spool(most(command))))


def plan_options(command: Command) -> Command:
    """What decides the plan, not the answer."""
    sharing = click.option(
        "--sharing",
        type=ModeChoice(SHARING),
        default="auto",
        show_default=True,
        help="How queries share work.",
    )
    index = click.option(
        "--index", type=click.Choice(INDEXES), default="auto", show_default=True, help="Index of every join."
    )
    expiry = click.option(
        "--expiry",
        type=ModeChoice(EXPIRY),
        default="auto",
        show_default=True,
        help="How operators hear that rows have left their windows.",
    )
    modes = click.option(
        "--modes",
        type=ModesChoice(MODES),
        default="auto",
        show_default=True,
        help="What every operator of a hopping query reads and writes, changes (D) or whole answers (C); "
        "or those of some, by the names that explain shows: 'join 1=CICO'.",
    )
    optimize = click.option(
        "--optimize",
        type=click.Choice(OPTIMIZE),
        default="exhaustive",
        show_default=True,
        help="How the order of a hopping query's joins and the places of its differences are searched for.",
    )
    return sharing(index(expiry(modes(optimize(command)))))
