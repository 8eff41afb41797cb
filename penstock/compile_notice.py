"""Says once that kernels are being compiled, which makes the first push on a machine take ten seconds.

It goes to the logger `penstock` as a warning. Nothing is wrong, but Python shows no lower level where no
logging is set up, and that is where people wonder. `logging.getLogger("penstock").setLevel("ERROR")` silences
it. The command puts its own way of printing into `say`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

SAID = "Compiling kernels for this machine ..."


class CompileNotice:
    """`count` is how many kernels were compiled so far; `say` where the line goes."""

    def __init__(self) -> None:
        self.count = 0
        self.say: Callable[[str], object] = logging.getLogger("penstock").warning
        self._beginning = threading.Lock()
        self._is_listening = False

    def listen(self) -> None:
        """Be told of compilations from now on; loads Numba, which an engine does anyway."""
        from penstock.engine.kernels.base.jit import on_compile

        with self._beginning:
            if not self._is_listening:
                self._is_listening = True
                on_compile(self._hear)

    def _hear(self) -> None:
        self.count += 1
        if self.count == 1:
            self.say(SAID)


compile_notice = CompileNotice()
"""One for the process, as the machine code is."""
