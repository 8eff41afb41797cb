"""`penstock`: finds the command, runs it, and turns every error into one line and an exit code.

A command's module is loaded only when it is called: `penstock --help` does not load Numba.
"""

from __future__ import annotations

import errno
import importlib
import importlib.abc
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from penstock.connectors.writing import write_error
from penstock.engine.rows.errors import DataError, FileError, PenstockError, did_you_mean

from .entry import begin_command

CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
STANDARD_OUTPUT = "standard output"
PRINTING = ("explain", "demo", "calibrate")  # all they do is to say something
COMMANDS = ("run", "explain", "demo", "calibrate", "bench")

HELP = """Many continuous SQL queries over the same streams, for little more than the price of one.

\b
New here?   penstock demo
Your data:  penstock run queries.sql -i temperature=temps.parquet -i humidity='hum/*.csv'

\b
Exit codes: 0 done, 2 wrong usage, 3 a query is wrong, 4 the data is wrong or a file cannot be read or
written, 130 interrupted.
"""


class Commands(click.Group):
    """Commands by name, each from the module of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The process is ours alone, started from a shell."""
        if "bench" not in sys.argv:  # the systems we compare with may want pandas
            _keep_pandas_out()
        return super().__call__(*args, **kwargs)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Results and files have errors of their own: what is left is help, a plan, a page.
            if error.filename is not None or error.errno not in CANNOT_WRITE:
                raise
            _leave_output()
            _say(f"Error: {write_error(STANDARD_OUTPUT, error)}")
            sys.exit(FileError.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"penstock.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command), f"cli/{cmd_name}.py has no command {cmd_name}"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            hint = did_you_mean(name, COMMANDS)
            raise click.UsageError(f"Expected a command, found `{name}`. {hint or ''}".rstrip(), ctx)
        found = super().resolve_command(ctx, args)
        begin_command()
        if sys.stdout is None and name in PRINTING:
            raise write_error(STANDARD_OUTPUT, OSError(errno.EBADF, os.strerror(errno.EBADF)))
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            _say(f"Error: {error}")
            _leave_output()
            ctx.exit(error.exit_code)
        except MemoryError as error:
            reason = " ".join(str(error).split())
            _say(f"Error: Expected memory for the rows, found none left ({reason})")
            ctx.exit(DataError.exit_code)
        except BrokenPipeError:
            _leave_pipe(ctx)
        except KeyboardInterrupt as error:
            _say("Interrupted")
            ctx.exit(getattr(error, "exit_code", 130))


def _say(line: str) -> None:
    """On standard error, if it takes it: the exit code says it too."""
    with suppress(OSError):
        click.echo(line, err=True)


def _leave_pipe(ctx: click.Context) -> NoReturn:
    """Who read our output has gone (`| head`): that is no error, and nothing more can be said to them."""
    _leave_output()
    ctx.exit(0)


def _leave_output() -> None:
    """What standard output could not take must not be tried again at the end of the process."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, sys.stdout.fileno())
        os.close(silent)


def _keep_pandas_out() -> None:
    """Arrow loads pandas, if installed, on its first conversion from Python, to know pandas objects.

    There are none here, and loading it would take longer than everything else together. Arrow asks once.
    """
    import pyarrow as pa

    class NoPandas(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
            if fullname == "pandas":
                raise ImportError("not needed here")

    finder = NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)


@click.command(
    cls=Commands, help=HELP, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="penstock", prog_name="penstock")
def main() -> None:
    """The entry point; the group does the work."""
