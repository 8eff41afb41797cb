"""The shape of the repository: links, packages, imports, and no path of the machine it was written on."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import conftest
import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("engine", "optimizer", "connectors", "cli", "bench")
OURS = (*LAYERS, "penstock", "tests")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def python_files() -> list[Path]:
    """Every module once: not through the links of penstock/."""
    files = [path for folder in OURS for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in files if not is_linked(path))


def is_linked(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[0] == "penstock" and parts[1] in LAYERS


@pytest.mark.parametrize("layer", LAYERS)
def test_links_resolve(layer: str) -> None:
    """Without them type checkers and linters would see a package of one file and report success."""
    link = ROOT / "penstock" / layer
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == (ROOT / layer).resolve()
    assert importlib.util.find_spec(f"penstock.{layer}") is not None


def test_every_package_is_listed() -> None:
    """A folder that is not listed works here and is missing where it was installed."""
    listed = set(SETTINGS["tool"]["setuptools"]["packages"])
    found = {"penstock"}
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            found.add(".".join(("penstock", *path.parent.relative_to(ROOT).parts)))
    assert found == listed
    for package in listed - {"penstock"}:
        assert (ROOT / package.removeprefix("penstock.").replace(".", "/") / "__init__.py").exists(), package
    mapped = set(SETTINGS["tool"]["setuptools"]["package-dir"])
    assert mapped == {"penstock", *(f"penstock.{layer}" for layer in LAYERS)}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports_in(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Wherever in the file they stand."""
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every absolute import."""
    found: list[tuple[int, str]] = []
    for node in imports_in(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif node.level == 0:
            found.append((node.lineno, node.module or ""))
    return found


def test_no_layer_is_imported_by_its_bare_name() -> None:
    """`import engine` finds the folder here, and another copy of every class."""
    files = python_files()
    assert len(files) > 80
    bare = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in files
        for line, module in imported(path)
        if module.split(".")[0] in LAYERS
    ]
    assert bare == []


def test_across_folders_imports_are_absolute() -> None:
    """Relative imports stay inside a layer."""
    for path in python_files():
        depth = len(path.relative_to(ROOT).parts) - 1
        for node in imports_in(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level <= depth, f"{path.relative_to(ROOT)}:{node.lineno} leaves its layer"


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name]


# A home or working folder followed by a name; `/tmp/x` and `/dev/stdin` are anybody's.
MACHINE_PATH = re.compile(r"(?<![\w./:])/(?:home|Users|root|work|mnt|opt|srv)/[\w.-]+")


def test_no_paths_of_a_machine() -> None:
    found = []
    for path in tracked_files():
        if path.is_symlink() or not path.is_file() or path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    for path in python_files():
        if path.read_text().strip():
            assert ast.get_docstring(tree_of(path)), path.relative_to(ROOT)


ROOMS = sorted(
    {path.parent for top in ("engine", "optimizer") for path in (ROOT / top).rglob("*.py")}
    - {ROOT / "engine"}
)
MOST_FILES = 16


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_is_small_and_says_what_it_is(room: Path) -> None:
    files = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES
    head = ast.get_docstring(tree_of(room / "__init__.py"))
    assert head is not None
    named = re.findall(r"`([\w/]+\.py)`", head)
    assert all((room / name).exists() for name in named), "it says to read what is not there"
    assert named or len(files) < 4, "it does not say what to read first"


def test_files_that_heads_name_are_there() -> None:
    """`kernels/changes/bag.py` or `bag.py`: the end of some path, so that whoever looks for it finds it."""
    files = python_files()
    paths = [f"/{path.relative_to(ROOT)}" for path in files]
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        if path.relative_to(ROOT).parts[0] != "tests"
        for name in re.findall(r"(?<![\w/.])[\w/]*\w\.py\b", ast.get_docstring(tree_of(path)) or "")
        if not any(one.endswith(f"/{name}") for one in paths)
    ]
    assert missing == []


def test_the_page_of_rooms_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "write_rooms.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tests_of_spark_are_in_files_of_spark(request: pytest.FixtureRequest) -> None:
    """Their files run in one process, which has the session; another would start a second one."""
    asking = {
        item.path.name for item in request.session.items if "spark" in getattr(item, "fixturenames", ())
    }
    assert {name for name in asking if not name.startswith("test_spark_")} == set()


def test_files_that_begin_first_are_there() -> None:
    assert [name for name in conftest.LONGEST if not list((ROOT / "tests").rglob(name))] == []
