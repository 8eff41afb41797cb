"""Kernels take few arguments: what belongs together comes as one, a tuple of arrays or a structured array."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 11

# Functions of kernels that still take more. Numbers only fall; one that takes few is not here.
MANY: dict[str, int] = {
    "chain/slice_join.py run_slice": 14,
    "chain/slice_run.py run_slices": 13,
    "changes/bag.py enter": 17,
    "changes/change_join.py change": 19,
    "changes/groups.py run_changes": 14,
    "indexes/btree.py run_btree": 15,
    "indexes/hash_rounds.py set_out": 13,
    "indexes/hash_rounds.py find_pairs": 13,
    "indexes/hash_rounds.py count_ages": 18,
    "indexes/hash_rounds.py count_cells": 22,
    "indexes/nodes.py emit": 12,
    "indexes/probe_nodes.py emit": 13,
    "indexes/probe_nodes.py walk": 14,
    "indexes/probe_nodes.py serve": 15,
    "indexes/sorted_nodes.py merge": 12,
    "indexes/ttree.py run_ttree": 16,
    "joins/cells.py add_pairs": 16,
    "joins/query_index.py count_pairs": 12,
    "rows/hash.py run_hash": 13,
    "rows/merge.py merge_pairs": 17,
}


def arguments() -> dict[str, int]:
    """How many arguments each function of the kernels takes, by `room/file.py name`."""
    kernels = ROOT / "engine" / "kernels"
    return {
        f"{path.relative_to(kernels)} {node.name}": len(node.args.args) + len(node.args.kwonlyargs)
        for path in sorted(kernels.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }


def test_kernels_take_few_arguments() -> None:
    found = {name: count for name, count in arguments().items() if count > MOST}
    more = {name: count for name, count in found.items() if count > MANY.get(name, MOST)}
    assert not more, "what belongs together can come as one tuple of arrays"
    assert found == MANY, "fewer than MANY says: write the smaller numbers there"
