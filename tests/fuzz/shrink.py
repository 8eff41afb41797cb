"""The smallest script that still fails, found by leaving things out; and a program that shows the failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .script import Advance, Alter, Close, Drop, Push, Restore, Script, Start, Step

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
            if not any(isinstance(one, Close) for one in kept):
                kept = [*kept, Close(False)]
            if kept != steps:
                yield replace(script, steps=kept)
        size //= 2
    for number, step in enumerate(steps):
        for simpler in simpler_ones(step):
            yield replaced(script, number, simpler)
    if script.hurry:
        yield replace(script, hurry=False)
    if script.scheduler:
        yield replace(script, scheduler=0)
    for name in script.options:
        yield replace(script, options=without(script.options, name))
    for name, declared in script.streams.items():
        for simpler in (
            replace(declared, slack=0),
            replace(declared, ahead=None),
            replace(declared, idle=None),
        ):
            if simpler != declared:
                yield replace(script, streams={**script.streams, name: simpler})


def simpler_ones(step: Step) -> Iterator[Step]:
    match step:
        case Push():
            for part in halves(step.rows):
                yield replace(step, rows=part)
            if step.within is not None:
                yield replace(step, within=None)
            if step.chunks > 1:
                yield replace(step, chunks=1)
        case Start():
            for name in step.forced:
                yield replace(step, forced=without(step.forced, name))
            if step.late:
                yield replace(step, late=None)
            if step.hears:
                yield replace(step, hears="")
            if step.in_text:
                yield replace(step, in_text=False)


def without(options: dict[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in options.items() if one != name}


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
    lines += [f'e.execute("{declared.sql(name)}")' for name, declared in script.streams.items()]
    lines.append('e.execute("CREATE TABLE t (k BIGINT, v DOUBLE)")')
    lines.append('e.push("t", {"k": [1, 1, 2, None], "v": [0.5, 0.5, None, 1.0]})')
    for step in script.steps:
        if isinstance(step, Push) and step.within is not None:
            lines.append(f"# asked for by the first subscriber who is called: {written(step.within)}")
        lines.append(written(step))
    lines.append(f"# {fails(script)}")
    return "\n".join(lines)


def written(step: Step) -> str:
    match step:
        case Push():
            columns = [list(one) for one in zip(*step.rows, strict=True)]
            names = ("ts", "id", "k", "v")
            told = ", ".join(f'"{name}": {values}' for name, values in zip(names, columns, strict=True))
            return f'e.push("{step.stream}", {{{told}}})' + (f"  # {step.chunks} chunks" * (step.chunks > 1))
        case Start():
            options = "".join(f", {name}={value!r}" for name, value in step.options.items())
            hears = f"  # a subscriber {step.hears}" if step.hears else ""
            return f'{step.name} = e.query("{step.sql}", "{step.name}"{options}){hears}'
        case Alter():
            return f'e.execute("{step.sql}")'
        case Drop():
            return f'e.execute("DROP QUERY {step.name}")'
        case Restore():
            return "e = penstock.Engine.restore_bytes(e.checkpoint_bytes())"
        case Advance():
            return f"e.advance({step.ts}{'' if step.stream is None else f', {step.stream!r}'})"
        case Close():
            return f"e.close(drain={step.drain})"
        case _:
            return f"# {step}"
