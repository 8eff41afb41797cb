"""Writes docs/rooms.md: every room and file of the engine and the optimizer, from the heads of the modules.

    python docs/write_rooms.py [--check]

The order is that of pyproject.toml's import contracts, lowest room first. --check: nothing is written, and
a page that is out of date is an error.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rooms.md"
FOLDERS = ("engine", "engine/kernels", "optimizer")
SECTIONS = ("In", "Out", "Kept", "Dropped")


def main() -> None:
    text = write_page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(
            "Expected docs/rooms.md as the heads of the modules say, found another one: run `make rooms`"
        )


def write_page() -> str:
    parts = [
        "# Rooms\n\nEvery room of the code and every file in it, from the heads of the modules (`make rooms`"
        " writes this page). A room imports only rooms before it; `make check` sees to that.\n"
    ]
    for folder in FOLDERS:
        parts.append(f"## {folder}/\n\n{said_of(head_of(ROOT / folder / '__init__.py'))}\n")
        parts += [write_room(ROOT / folder / room) for room in rooms_of(folder) if room != "kernels"]
    return "\n".join(parts)


def rooms_of(folder: str) -> list[str]:
    """Rooms of a folder, lowest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    container = "penstock." + folder.replace("/", ".")
    (found,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == [container]
    )
    return list(reversed(found))


def write_room(room: Path) -> str:
    files = sorted(path for path in room.rglob("*.py") if path.name != "__init__.py")
    rows = [f"| `{path.relative_to(room)}` | {cell(head_of(path))} |" for path in files]
    name = room.relative_to(ROOT)
    return (
        f"### {name}/\n\n{said_of(head_of(room / '__init__.py'))}\n\n| file | |\n| --- | --- |\n"
        + "".join(f"{row}\n" for row in rows)
    )


def head_of(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def said_of(head: str) -> str:
    """A head as Markdown: lines that stand apart are paragraphs, what is set in is a picture."""
    blocks = []
    for block in head.split("\n\n"):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            blocks.append(block)
        else:
            starts = ("A line belongs", "Imported", "Read first", "Whoever", "Everybody", "Every room")
            joined = re.sub(rf"\n(?!{'|'.join(starts)})", " ", block)
            blocks.append(joined.replace("\n", "\n\n"))
    return "\n\n".join(blocks)


def cell(head: str) -> str:
    """What a file is, and for an operator what comes in, goes out, is kept and is dropped."""
    first = head.split("\n\n")[0].replace("\n", " ")
    found = [
        f"**{name}** {' '.join(match[1].split())}"
        for name in SECTIONS
        if (
            match := re.search(
                rf"(?:^|(?<=\s)){name}: +(.*?)(?=\s(?:{'|'.join(SECTIONS)}):|\n\n|\Z)", head, re.S
            )
        )
    ]
    return "<br>".join([first, *found]).replace("|", "\\|")


if __name__ == "__main__":
    main()
