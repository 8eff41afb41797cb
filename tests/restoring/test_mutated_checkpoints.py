"""Checkpoints that somebody changed, with checksums that fit; mutated_checkpoints.py has how and what is
asked."""

from __future__ import annotations

from itertools import islice

import pytest
import test_checkpoint
from mutated_checkpoints import LATE, Mutator, ask, engines, judged, run, taken_apart

from penstock.engine.flow.queue import Queue


def test_what_is_not_changed_is_fine() -> None:
    """Taken apart and put together it is the same; who looks at mutants finds nothing wrong with it."""
    data = test_checkpoint.make(sharing="chain", expiry="nta").checkpoint_bytes()
    assert ask(taken_apart(data).sealed()) == "fine"


def test_copies_tell_what_becomes_of_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is changed, is heard of once and in order; a copy that hangs or dies takes nobody along."""
    ((_, engine),) = islice(engines(made=0), 1)
    mutator = Mutator(taken_apart(engine.checkpoint_bytes()))
    mutants = [mutator.mutant(seed) for seed in range(30)]
    assert len({data for _, data in mutants}) > 25
    found = list(judged(mutants))
    assert [data for _, _, data in found] == [data for _, data in mutants]
    assert {answer.split(":")[0] for _, answer, _ in found} <= {"refused", "fine", LATE}
    assert any(answer == "refused" for _, answer, _ in found)


def test_a_copy_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, "_check_restored", lambda queue: __import__("os").abort())
    ((_, engine),) = islice(engines(made=0), 1)
    data = engine.checkpoint_bytes()
    found = [answer for _, answer, _ in judged([("as it is", data), ("again", data)])]
    assert found == ["crash: SIGABRT", "crash: SIGABRT"]


def test_some_mutants_are_refused_or_stand_what_comes() -> None:
    said = run(120, first=1, each=30, made=0)
    assert {answer.split(":")[0] for answer in said} <= {"refused", "fine", LATE}, said
    assert said["refused"] and said["fine"]


@pytest.mark.slow
def test_many_mutants_are_refused_or_stand_what_comes() -> None:
    said = run(20_000, first=1_000_000, each=100)
    assert {answer.split(":")[0] for answer in said} <= {"refused", "fine", LATE}, said
