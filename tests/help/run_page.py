"""Runs a page of the documents from top to bottom, as a reader who types everything would.

    ```python                 runs; names stay for the blocks below it
    ```python title="x.py"    a file, not run by itself; so are other languages with a title
    ```sh                     a command line, in the folder in which the files are
    ```                       what the last block printed, all of it; a line of dots stands for any lines,
                              the one character … for anything within a line

A block that raises is shown by the name of the error and its message. Commands that set a machine up are not
run: that what they name exists is all that is looked at.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)
SETS_UP = ("make ", "pip install ", "source ")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code; `title`: the file it is, `line`: where it begins, `span`: where its text stands."""

    language: str
    title: str
    text: str
    line: int
    span: tuple[int, int]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page; a fence that belongs to none is an error."""
    found = [
        Block(one[1], one[2] or "", one[3], page.count("\n", 0, one.start()) + 1, one.span(3))
        for one in FENCE.finditer(page)
    ]
    fences = len(re.findall(r"^ *(?:```|~~~)", page, re.M))
    assert fences == 2 * len(found), f"{fences} fences, {len(found)} blocks"
    return found


class PageRun:
    """A page at work: the folder of its files, its names, and what was printed and is not shown yet.

    With `rewrite` nothing that is shown is wrong: what came in its place is in `found`.
    """

    def __init__(self, name: str, folder: Path, rewrite: bool = False) -> None:
        self._name = name
        self._folder = folder
        self._rewrite = rewrite
        self._names: dict[str, object] = {"__name__": "__main__"}
        self._printed: str | None = None
        self._raised = False
        self._line = 0
        self.found: list[tuple[Block, str]] = []
        self.blocks_run = 0
        self.lines_shown = 0

    def take(self, block: Block) -> None:
        """The next block of the page."""
        if block.language == "" and not block.title:
            self._line = block.line
            self._show(block)
            return
        self.must_be_shown()
        self._line = block.line
        if block.title:
            self._write_file(block)
            return
        self.blocks_run += 1
        if block.language == "python":
            self._printed = self._run_python(block)
        elif block.language == "sh":
            self._printed = self._run_commands(block)
        else:
            raise AssertionError(f"{self._where()}: nobody runs `{block.language}`")

    def must_be_shown(self) -> None:
        """What was printed or raised so far, the page has shown."""
        assert not self._printed, f"{self._where()}: the page does not show\n{self._printed}"
        self._printed = None

    def _where(self) -> str:
        return f"{self._name}, line {self._line}"

    def _write_file(self, block: Block) -> None:
        path = self._folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def _run_python(self, block: Block) -> str:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, self._name, "exec")  # errors name the page's lines
        with contextlib.redirect_stdout(printed), contextlib.chdir(self._folder):
            try:
                exec(code, self._names)
            except Exception as error:
                printed.write(f"{type(error).__name__}: {error}\n")
        return printed.getvalue()

    def _run_commands(self, block: Block) -> str:
        printed = ""
        for command in block.text.replace("\\\n", " ").splitlines():
            if command.startswith(SETS_UP):
                self._check_set_up(command)
            elif command.strip():
                printed += self._run_command(command)
        return printed

    def _run_command(self, command: str) -> str:
        """What a command prints; if it fails, what it says on standard error too."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env={**os.environ, "PATH": path, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.stdout + (done.stderr if done.returncode else "")

    def _check_set_up(self, command: str) -> None:
        if command.startswith("make "):
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
            assert command.split()[1] in targets, f"{self._where()}: no target for `{command}`"
        for extra in re.findall(r"\[(\w+)\]", command):
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            assert extra in project["optional-dependencies"], f"{self._where()}: no `{extra}` to install"

    def _show(self, block: Block) -> None:
        assert self._printed is not None, f"{self._where()}: shows what nobody has printed"
        is_so = matches(block.text, self._printed)
        if self._rewrite and not is_so:
            self.found.append((block, self._printed))
        else:
            assert is_so, f"{self._where()}: the page shows\n{block.text}\nfound\n{self._printed}"
        self.lines_shown += sum(line.strip(" │") not in ("", "...") for line in block.text.splitlines())
        self._printed = None


def matches(shown: str, printed: str) -> bool:
    """Whether this is shown; lines without text and spaces at ends do not count."""
    pattern = ""
    for line in lines_of(shown):
        if line.strip(" │") == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".+".join(re.escape(part) for part in line.split("…")) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines_of(printed))) is not None


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def run_page(name: str, folder: Path, rewrite: bool = False) -> PageRun:
    """Run a page, named from the top of the repository, with a folder of its own."""
    path = ROOT / name
    page = path.read_text()
    run = PageRun(name, folder, rewrite)
    for block in blocks_of(page):
        run.take(block)
    run.must_be_shown()
    for block, printed in reversed(run.found):
        text = "".join(f"{line}\n" for line in lines_of(printed))
        page = page[: block.span[0]] + text + page[block.span[1] :]
    if run.found:
        path.write_text(page)
    return run
