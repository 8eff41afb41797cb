"""The smallest script that still fails, found by leaving things out; and a program that shows the failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .script import Alter, Close, Drop, Push, Read, Restore, Script, Start, declare

Fails = Callable[[Script], str | None]
"""Says what is wrong with a script, if anything."""


def shrink(script: Script, seconds: float, fails: Fails) -> Script:
    """As small as it gets in so much time."""
    until = time.monotonic() + seconds
    first = kind_of(fails(script))
    better = True
    while better and time.monotonic() < until:
        better = False
        for smaller in smaller_ones(script):
            if time.monotonic() > until:
                break
            if kind_of(fails(smaller)) == first:
                script, better = smaller, True
                break
    return script


def kind_of(wrong: str | None) -> str | None:
    """The class of an error: another one is another failure."""
    return None if wrong is None else wrong.split(":", 1)[0]


def smaller_ones(script: Script) -> Iterator[Script]:
    steps = script.steps
    size = len(steps) // 2
    while size:
        for at in range(0, len(steps), size):
            kept = steps[:at] + steps[at + size :]
            yield replace(
                script, steps=kept if any(isinstance(one, Close) for one in kept) else [*kept, Close(False)]
            )
        size //= 2
    for number, step in enumerate(steps):
        if isinstance(step, Push):
            for part in halves(step.rows):
                yield replaced(script, number, replace(step, rows=part))
        if isinstance(step, Start) and (step.modes or step.execution):
            yield replaced(script, number, replace(step, modes=None, execution=None))
    if script.hurry:
        yield replace(script, hurry=False)
    if script.scheduler:
        yield replace(script, scheduler=0)
    for name in script.options:
        yield replace(script, options={one: value for one, value in script.options.items() if one != name})
    for name, slack in script.slack.items():
        if slack:
            yield replace(script, slack={**script.slack, name: 0})


def halves(rows: list[Any]) -> Iterator[list[Any]]:
    size = len(rows) // 2
    while size:
        for at in range(0, len(rows), size):
            if len(rows) > size:
                yield rows[:at] + rows[at + size :]
        size //= 2


def replaced(script: Script, number: int, step: Any) -> Script:
    return replace(script, steps=[*script.steps[:number], step, *script.steps[number + 1 :]])


def write(script: Script, fails: Fails) -> str:
    """A program that does it, and what is wrong."""
    given = ", ".join(f"{name}={value!r}" for name, value in script.options.items())
    lines = ["import penstock", f"e = penstock.Engine({given})"]
    if script.scheduler or script.hurry:
        lines.append(f"# scheduler {script.scheduler}, hurry {script.hurry}, seed {script.seed}")
    lines += [f'e.execute("{declare(name, slack)}")' for name, slack in script.slack.items()]
    lines.append('e.execute("CREATE TABLE t (k BIGINT, v DOUBLE)")')
    lines.append('e.push("t", {"k": [1, 1, 2, None], "v": [0.5, 0.5, None, 1.0]})')
    for step in script.steps:
        match step:
            case Push():
                columns = [list(one) for one in zip(*step.rows, strict=True)]
                told = ", ".join(
                    f'"{name}": {values}'
                    for name, values in zip(("ts", "id", "k", "v"), columns, strict=True)
                )
                lines.append(f'e.push("{step.stream}", {{{told}}})')
            case Start():
                options = "".join(f", {name}={value!r}" for name, value in step.options.items())
                lines.append(f'{step.name} = e.query("{step.sql}", "{step.name}"{options})')
            case Alter():
                lines.append(f'e.execute("{step.sql}")')
            case Drop():
                lines.append(f"{step.name}.drop()")
            case Restore():
                lines.append("e = penstock.Engine.restore_bytes(e.checkpoint_bytes())")
            case Read():
                lines.append(f"# {step.name} is looked at")
            case Close():
                lines.append(f"e.close(drain={step.drain})")
            case _:
                lines.append(f"e.advance({step.ts}{'' if step.stream is None else f', {step.stream!r}'})")
    lines.append(f"# {fails(script)}")
    return "\n".join(lines)
