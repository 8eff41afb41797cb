"""What the shell starts: Ctrl-C is one line from the first moment on, also while Python loads the rest.

Until a command begins nothing has been written, and the process ends where it is: an exception could be met
by a library that is being loaded and does not expect one.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

FEW_COLLECTIONS = 100_000  # objects between two: what libraries make while they load is no garbage

LAST_STANDARD = 2


def main() -> None:
    """Load the commands and run the one that was asked for."""
    gc.set_threshold(FEW_COLLECTIONS)
    fill_standard_places()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from .main import main as commands

    commands(prog_name="penstock")


def fill_standard_places() -> None:
    """Where standard input, output or error is closed, no file of ours may come to stand in its place.

    `sys.stdout` stays None then, as results that nobody gets are an error; what is said beside them is not
    missed.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= LAST_STANDARD:
        pass
    os.close(handle)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def begin_command() -> None:
    """From here on an interrupt is an exception, which the command may meet."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, _: FrameType | None) -> None:
    os.write(2, b"Interrupted\n")
    os._exit(128 + number)
