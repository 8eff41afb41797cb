"""Engines driven through everything at once (tests/fuzz): a few scripts in every run, many of a night."""

from __future__ import annotations

import random

import pytest
from fuzz.draw import draw_script
from fuzz.main import attempt, try_many
from fuzz.script import Push, Script
from fuzz.shrink import shrink, write

EVERY_DAY = 40
A_NIGHT = 20_000


def test_a_few_scripts() -> None:
    wrong = {seed: found for seed in range(EVERY_DAY) if (found := attempt(draw_script(seed)))}
    assert not wrong, "see python -m fuzz.main --draws 1 --seed N"


@pytest.mark.slow
def test_scripts_that_nobody_has_drawn_before() -> None:
    tally = try_many(random.SystemRandom().randrange(1 << 40), A_NIGHT)
    assert not tally.failed
    assert tally.draws == A_NIGHT and tally.answers > A_NIGHT


def test_what_fails_is_made_small() -> None:
    """A rule that no script with two rows of one key satisfies leaves two rows of it, and a program."""

    def fails(script: Script) -> str | None:
        keys = [row[2] for step in script.steps if isinstance(step, Push) for row in step.rows]
        return "Twice: one key" if any(keys.count(key) > 1 for key in keys) else None

    script = shrink(next(one for seed in range(99) if fails(one := draw_script(seed))), 20, fails)
    pushes = [step for step in script.steps if isinstance(step, Push)]
    rows = [row for push in pushes for row in push.rows]
    assert len(rows) == 2 and rows[0][2] == rows[1][2]
    assert (len(script.steps), script.options, script.scheduler) == (len(pushes) + 1, {}, 0)  # and a close
    assert compile(write(script, fails), "script", "exec")
