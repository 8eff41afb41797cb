"""Who owns state writes it: no function outside a class binds attributes of its objects; no class has many.

Counted is every place that binds an attribute of anything but `self` and `cls`: by =, +=, an annotation,
`for`, `with`, `del` or setattr. What an attribute holds may be written to (`self.cursor[0] = 1`): arrays and
dicts are handed round to be filled.
Not counted, within a class: attributes of another object of that class, seen by its annotation or by how it
was made. Not counted, anywhere: attributes that no class here has, as an error's `__cause__`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("engine", "optimizer", "penstock", "connectors")
MOST_ATTRIBUTES = 20

# Files that still write what is another's, and in how many places. Numbers only fall.
OUTSIDE: dict[str, int] = {
    "engine/chain/chain.py": 16,
    "engine/chain/ordered_union.py": 7,
    "engine/chain/slice_counts.py": 1,
    "engine/chain/slice_join.py": 5,
    "engine/chain/slice_run.py": 6,
    "engine/join_forms/form.py": 1,
    "engine/join_forms/push_down.py": 27,
    "engine/join_forms/together_or_apart.py": 12,
    "engine/joins/found_pairs.py": 2,
    "engine/joins/members_join.py": 5,
    "engine/joins/pair_counter.py": 3,
    "engine/joins/pair_giver.py": 1,
    "engine/joins/window_join.py": 1,
    "engine/many_joins/row_giver.py": 2,
    "engine/running/end_of_input.py": 1,
    "engine/running/runtime.py": 19,
    "engine/running/succession.py": 6,
    "engine/shelves/coverage.py": 2,
    "engine/shelves/find_needed.py": 5,
    "engine/shelves/key_counts.py": 1,
    "engine/shelves/stored_side.py": 2,
    "engine/windows/stream_rows.py": 2,
    "engine/windows/window_store.py": 5,
    "optimizer/calibrate/calibrate_slices.py": 2,
}

# What only looks as if it were ours.
NOT_OURS = (
    "engine/checkpoints/object_builder.py: error.*",  # an error gets back all that was written down of it
    "engine/rows/array_memory.py: block.arrays",  # ctypes' memory keeps those alive that it is part of
)

# Classes that still have more than MOST_ATTRIBUTES, their bases' among them. Numbers only fall.
LARGE: dict[str, int] = {
    "engine/chain/slice_join.py SliceJoin": 21,
    "engine/panes/pane_aggregate.py PaneAggregate": 24,
    "engine/results/sink.py Sink": 26,
}


def modules() -> Iterator[Path]:
    """Every module of the layers once: not through the links of penstock/."""
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            if not (parts[0] == "penstock" and (ROOT / "penstock" / parts[1]).is_symlink()):
                yield path


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def attributes_bound(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that this one statement or call binds, whose ever they are."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            places = list(targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            places = [target]
        case ast.With(items=items):
            places = [one.optional_vars for one in items if one.optional_vars is not None]
        case ast.Call(func=ast.Name(id="setattr"), args=[of, ast.Constant(value=str(name)), _]):
            places = [ast.copy_location(ast.Attribute(of, name, ast.Store()), node)]
        case ast.Call(func=ast.Name(id="setattr"), args=[of, *_]):
            places = [ast.copy_location(ast.Attribute(of, "*", ast.Store()), node)]
        case _:
            return
    while places:
        place = places.pop()
        match place:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                places += parts
            case ast.Starred(value=part):
                places.append(part)
            case ast.Attribute():
                yield place


def names_of_class(function: ast.FunctionDef, name: str) -> set[str]:
    """The arguments and local names of a method that hold objects of its own class."""
    own: set[str] = set()
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if argument.annotation is not None and ast.unparse(argument.annotation) in (name, "Self"):
            own.add(argument.arg)
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=local)], value=ast.Call(func=called) as made):
                if (
                    ast.unparse(called) in (name, "cls", "cls.__new__", f"{name}.__new__", "type(self)")
                    or ast.unparse(made) == "copy.copy(self)"
                ):
                    own.add(local)
    return own


def written_from_outside(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The places at which a module binds an attribute of an object that is not the class's own."""

    def walk(node: ast.AST, in_class: str | None, own: frozenset[str]) -> Iterator[ast.Attribute]:
        for bound in attributes_bound(node):
            if not (isinstance(bound.value, ast.Name) and bound.value.id in own):
                yield bound
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, child.name, frozenset())
            elif isinstance(child, ast.FunctionDef) and in_class is not None:
                yield from walk(child, in_class, own | names_of_class(child, in_class) | {"self", "cls"})
            else:
                yield from walk(child, in_class, own)

    yield from walk(tree, None, frozenset())


def attributes_of(of_class: ast.ClassDef) -> set[str]:
    """The attributes that a class's body declares or its methods bind; not what all its objects share."""
    found = {
        node.target.id
        for node in of_class.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not ast.unparse(node.annotation).startswith("ClassVar")
    }
    for node in ast.walk(of_class):
        for bound in attributes_bound(node):
            if isinstance(bound.value, ast.Name) and bound.value.id == "self":
                found.add(bound.attr)
    return found


class Declared(NamedTuple):
    """A class, as its text says."""

    file: str
    name: str
    bases: tuple[str, ...]
    own: frozenset[str]
    is_frozen: bool


@functools.cache
def classes() -> tuple[Declared, ...]:
    return tuple(
        Declared(
            str(path.relative_to(ROOT)),
            node.name,
            tuple(ast.unparse(one).split("[")[0] for one in node.bases),
            frozenset(attributes_of(node)),
            is_frozen(node),
        )
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    )


def is_frozen(of_class: ast.ClassDef) -> bool:
    """A record that is made whole and never changes is no state."""
    return any("frozen=True" in ast.unparse(one) for one in of_class.decorator_list)


def all_attributes(of: Declared) -> frozenset[str]:
    """Its own and its bases'; of bases of one name, those of the file or else of the layer."""

    def nearness(base: Declared) -> tuple[bool, bool]:
        return base.file == of.file, base.file.split("/")[0] == of.file.split("/")[0]

    found = of.own
    for name in of.bases:
        named = [one for one in classes() if one.name == name and one is not of]
        if named:
            found |= all_attributes(max(named, key=nearness))
    return found


def test_who_owns_state_writes_it() -> None:
    ours = frozenset({"*"}).union(*(one.own for one in classes()))
    places: dict[str, list[str]] = {}
    for path in modules():
        name = str(path.relative_to(ROOT))
        for bound in written_from_outside(tree_of(path)):
            if bound.attr in ours and f"{name}: {ast.unparse(bound)}" not in NOT_OURS:
                places.setdefault(name, []).append(f"{name}:{bound.lineno}: {ast.unparse(bound)}")
    found = {name: len(lines) for name, lines in places.items()}
    more = [line for name, lines in places.items() if len(lines) > OUTSIDE.get(name, 0) for line in lines]
    assert not more, "a method of the owner should do this, and say what happens:\n" + "\n".join(more)
    assert found == OUTSIDE, "fewer than OUTSIDE says: write the smaller numbers there"


def test_classes_have_few_attributes() -> None:
    found = {f"{one.file} {one.name}": len(all_attributes(one)) for one in classes() if not one.is_frozen}
    large = {name: count for name, count in found.items() if count > MOST_ATTRIBUTES}
    more = {name: count for name, count in large.items() if count > LARGE.get(name, MOST_ATTRIBUTES)}
    assert not more, "what changes together can be an object of its own"
    assert large == LARGE, "fewer than LARGE says: write the smaller numbers there"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(side): side.rows = 1", 1),
        ("def f(side): side.rows += 1", 1),
        ("def f(side): del side.rows", 1),
        ("def f(side): setattr(side, 'rows', 1)", 1),
        ("def f(side):\n    for side.row in rows: pass", 1),
        ("def f(one, other): one.rows, (other.rows, *one.rest) = 1, (2, 3)", 3),
        ("def f(side): side.rows[0] = 1", 0),
        ("def f(side): rows = side.rows", 0),
        ("def f(side):\n    side = Side()\n    side.rows = 1", 1),
        ("class A:\n    def f(self): self.rows = 1", 0),
        ("class A:\n    def f(self): self.side.rows = 1", 1),
        ("class A:\n    def f(self, other: A): other.rows = 1", 0),
        ("class A:\n    def f(self, other: B): other.rows = 1", 1),
        ("class A:\n    @classmethod\n    def f(cls):\n        made = cls()\n        made.rows = 1", 0),
        ("class A:\n    def f(self):\n        def g(): self.rows = 1\n        return g", 0),
        ("def f(self): self.rows = 1", 1),
    ],
)
def test_what_is_counted(text: str, count: int) -> None:
    assert len(list(written_from_outside(ast.parse(text)))) == count


def test_what_an_attribute_is() -> None:
    (made,) = ast.parse(
        "class A:\n    x: int\n    y: ClassVar[int] = 1\n    def f(self):\n        self.z, self.x = 1, 2"
    ).body
    assert isinstance(made, ast.ClassDef)
    assert attributes_of(made) == {"x", "z"}
