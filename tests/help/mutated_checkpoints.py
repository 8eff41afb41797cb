"""Checkpoints changed here and there, with checksums that fit: each is refused, or the engine stands what
comes.

    PYTHONPATH=tests:tests/help:tests/laws python tests/help/mutated_checkpoints.py 20000 [first seed]

Engines of every kind are written down, and of each checkpoint many mutants are made: values in the header
and in
records, numbers of records, values inside arrays, lengths, types, bytes of Arrow buffers. Each is restored
in a copy
of the process that may take `MOST_BYTES` and `MOST_SECONDS`. An engine that comes back is pushed to, time
passes all windows, results are read and it is written down again.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import random
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
from fuzz.draw import draw_script
from fuzz.drive import Drive
from fuzz.script import Close

import penstock
from penstock.engine.checkpoints.checkpoint import CHECKSUM, FORMAT_VERSION, FRONT, MAGIC, checksum, unpack
from penstock.engine.rows.errors import CheckpointError, PenstockError
from penstock.engine.rows.types import SqlType

MOST_BYTES = 1 << 30
MOST_SECONDS = 2.0
IN_A_CHILD = 40
"""Mutants that one copy of the process looks at, one after the other."""
ODD = [
    0,
    1,
    -1,
    2,
    7,
    255,
    256,
    32_767,
    65_536,
    2**31 - 1,
    -(2**31),
    2**31,
    2**40,
    2**62,
    -(2**62),
    2**63 - 1,
]
LATE = "late"
"""What an answer begins with where a push said CheckpointError: values fit their types and places, and not
each other."""
PLAIN_ERRORS = (ArithmeticError, pa.ArrowException)
"""What data alone can bring about in a query: it overflows, or cannot be cast."""


class Parts(NamedTuple):
    """A checkpoint taken apart."""

    header: dict[str, Any]
    buffers: list[bytes]

    def sealed(self) -> bytes:
        header = msgpack.packb(self.header, unicode_errors="surrogatepass")
        body = b"".join(self.buffers)
        length = FRONT.size + len(header) + len(body) + CHECKSUM.size
        front = FRONT.pack(MAGIC, FORMAT_VERSION, length, len(header), len(header))
        whole = front + header + body
        return whole + CHECKSUM.pack(checksum([whole]))


def taken_apart(data: bytes) -> Parts:
    """With nothing compressed."""
    view = memoryview(data)
    _, _, _, stored, length = FRONT.unpack(view[: FRONT.size])
    at = FRONT.size + stored
    header = msgpack.unpackb(
        unpack(view[FRONT.size : at], length), strict_map_key=False, unicode_errors="surrogatepass"
    )
    buffers = []
    for length, stored in zip(header["lengths"], header["stored"], strict=True):
        buffers.append(bytes(unpack(view[at : at + stored], length)))
        at += stored
    header["stored"] = list(header["lengths"])
    return Parts(header, buffers)


class Mutator:
    """One change, sometimes two, to a copy of what was taken apart."""

    def __init__(self, parts: Parts) -> None:
        self._packed = msgpack.packb(parts.header, unicode_errors="surrogatepass")
        self._buffers = parts.buffers
        self.arrow = {
            record[1] for record in parts.header["records"]
            if record[0] in ("table", "batch", "arrow", "arrow scalar")
        }  # fmt: skip
        self._filled = [n for n, one in enumerate(parts.buffers) if one]

    def mutant(self, seed: int) -> tuple[str, bytes]:
        dice = random.Random(seed)
        header = msgpack.unpackb(self._packed, strict_map_key=False, unicode_errors="surrogatepass")
        parts = Parts(header, list(self._buffers))
        words = []
        for _ in range(dice.choice([1, 1, 1, 2])):
            change = dice.choice(
                [self.value, self.value, self.value, self.number, self.number, self.array, self.array,
                self.array, self.array, self.place, self.shared, self.header, self.bytes, self.kind,
                self.lengths]
            )  # fmt: skip
            with contextlib.suppress(LookupError, TypeError, ValueError, OverflowError, AttributeError):
                # the change before may have left nothing to change
                words.append(f"{change.__name__}: {change(parts, dice)}")
        return "; ".join(words), parts.sealed()

    def value(self, parts: Parts, dice: random.Random) -> str:
        """Another plain value, which everybody has who had this one."""
        records = parts.header["records"]
        number = dice.choice([n for n, one in enumerate(records) if one[0] == ""])
        was = records[number][1]
        records[number][1] = other_value(was, dice)
        return f"{number} {was!r:.60} -> {records[number][1]!r:.60}"

    def number(self, parts: Parts, dice: random.Random) -> str:
        """Another record in the place of one."""
        records = parts.header["records"]
        number = dice.choice([n for n, one in enumerate(records) if one[0] and len(one) > 1])
        record = records[number]
        places = [n for n, one in enumerate(record) if n and type(one) is int]
        if not places:
            return self.kind(parts, dice)
        place = dice.choice(places)
        was = record[place]
        how = dice.randrange(4)
        if how == 0:
            record[place] = dice.choice([was - 1, was + 1, dice.choice(ODD)])
        elif how == 1:
            record[place] = dice.randrange(len(records))
        else:  # one that looks the same
            alike = [
                n
                for n, one in enumerate(records)
                if is_alike(one, records[was] if was < len(records) else [])
            ]
            record[place] = dice.choice(alike or [was])
        return f"{number} {record[0]}[{place}] {was} -> {record[place]}"

    def kind(self, parts: Parts, dice: random.Random) -> str:
        """A record longer, shorter or of another kind."""
        records = parts.header["records"]
        number = dice.randrange(len(records))
        record = records[number]
        was = str(record)
        how = dice.randrange(4)
        if how == 0:
            record.pop(dice.randrange(len(record)))
        elif how == 1:
            record.append(dice.randrange(len(records)))
        elif how == 2:
            records[number] = list(dice.choice(records))
        else:
            record[0] = dice.choice(records)[0]
        return f"{number} {was:.80} -> {records[number]!s:.80}"

    def array(self, parts: Parts, dice: random.Random) -> str:
        """Values inside an array."""
        arrays = [one for one in parts.header["arrays"] if one[3] >= 0 and 0 not in one[1]]
        if not arrays:
            return "none"
        dtype, shape, strides, buffer, offset, _ = dice.choice(arrays)
        if offset < 0 or np.dtype(dtype).hasobject:  # the change before made it so: not ours to write to
            return "none"
        memory = bytearray(parts.buffers[buffer])
        values = np.ndarray(shape, np.dtype(dtype), memory, offset, strides)
        places = [dice.randrange(n) for n in shape]
        if dice.random() < 0.3:  # where something is more likely
            places = [dice.choice([0, n - 1, min(n - 1, 1)]) for n in shape]
        place = tuple(places)
        was = values[place].item()
        other = tuple(dice.randrange(n) for n in shape)
        options = [
            dice.choice(ODD),
            was + 1,
            was - 1,
            values[other].item(),
            values.size,
            dice.randrange(values.size),
        ]
        with np.errstate(all="ignore"):
            values[place] = np.array(dice.choice(options)).astype(values.dtype)
            if dice.random() < 0.2:
                values[other] = np.array(was).astype(values.dtype)
        parts.buffers[buffer] = bytes(memory)
        return f"{dtype} {shape} {place} {was} -> {values[place]}"

    def place(self, parts: Parts, dice: random.Random) -> str:
        """Where an array is, and what it is of."""
        if not parts.header["arrays"]:
            return "none"
        one = dice.choice(parts.header["arrays"])
        was = str(one)
        field = dice.randrange(6)
        if field == 0:
            one[0] = dice.choice(
                ["<i4", "<i8", "|u1", "|i1", "<f8", "|b1", "|O", "<U8", "<M8[us]", [["a", "<i8"]], 3]
            )
        elif field in (1, 2):
            if type(one[field]) is list and one[field]:
                one[field][dice.randrange(len(one[field]))] = dice.choice(
                    [*ODD, one[field][0] + 1, one[field][0] - 1]
                )
            else:
                one[field] = dice.choice([None, [], [0], [8], [1 << 40], [-8]])
        elif field == 3:
            one[3] = dice.choice([-1, len(parts.buffers), dice.randrange(len(parts.buffers)), one[3] + 1])
        elif field == 4:
            one[4] = dice.choice([*ODD, one[4] + 8, one[4] - 8, one[4] + 1])
        else:
            one[5] = not one[5]
        return f"{was} -> {one}"

    def shared(self, parts: Parts, dice: random.Random) -> str:
        """An array where another one is, or a part of it."""
        arrays = [one for one in parts.header["arrays"] if one[3] >= 0 and 0 not in one[1]]
        one = dice.choice(arrays)
        other = dice.choice([each for each in arrays if each[0] == one[0] and each is not one])
        was = str(one)
        one[3:5] = other[3:5]
        if dice.random() < 0.5:
            one[1:3] = list(other[1]), None if other[2] is None else list(other[2])
        return f"{was} -> {one}"

    def header(self, parts: Parts, dice: random.Random) -> str:
        """A field of the header."""
        name = dice.choice(list(parts.header))
        how = dice.randrange(4)
        if how == 0:
            del parts.header[name]
        elif how == 1:
            parts.header[name] = dice.choice([None, -1, 1 << 40, [], {}, "x", b"x", [[]], [None]])
        elif how == 2 and type(parts.header[name]) is list:
            parts.header[name] = parts.header[name][: dice.randrange(1 + len(parts.header[name]))]
        else:
            parts.header["root"] = dice.choice([dice.randrange(len(parts.header["records"])), -1, 1 << 40])
        return name

    def bytes(self, parts: Parts, dice: random.Random) -> str:
        """Bytes of a buffer, rather of Arrow data."""
        if not self._filled:
            return "none"
        arrow = [one for one in self._filled if one in self.arrow]
        number = dice.choice(arrow if arrow and dice.random() < 0.7 else self._filled)
        memory = bytearray(parts.buffers[number])
        at = dice.randrange(len(memory))
        memory[at] = dice.choice([0, 255, 127, 128, memory[at] ^ 1 << dice.randrange(8), dice.randrange(256)])
        parts.buffers[number] = bytes(memory)
        return f"buffer {number} at {at}"

    def lengths(self, parts: Parts, dice: random.Random) -> str:
        """Buffers cut short, swapped or said to be longer than they are."""
        if not self._filled:
            return "none"
        number = dice.choice(self._filled)
        how = dice.randrange(4)
        length = len(parts.buffers[number])
        if how == 0:
            parts.header["lengths"][number] = dice.choice(
                [1 << 40, length + 1, length - 1, -1, 0, length * 200, None]
            )
        elif how == 1:
            cut = dice.randrange(length)
            parts.buffers[number] = parts.buffers[number][:cut]
            parts.header["lengths"][number] = parts.header["stored"][number] = cut
        elif how == 2:
            parts.header["stored"][number] = dice.choice([1 << 40, length + 1, length - 1, -1, 0])
        else:
            other = dice.choice(self._filled)
            parts.buffers[number] = parts.buffers[other]
            parts.header["lengths"][number] = parts.header["stored"][number] = len(parts.buffers[other])
        return f"buffer {number} {how}"


def is_alike(one: list[Any], other: list[Any]) -> bool:
    return bool(other) and one[:2] == other[:2] if one[0] in ("object", "value", "named", "enum") else (
        bool(other) and one[0] == other[0] and (one[0] != "" or type(one[1]) is type(other[1]))
    )  # fmt: skip


def other_value(was: Any, dice: random.Random) -> Any:
    if dice.random() < 0.1:
        return dice.choice([None, True, 0, -1, 1.5, "", "x", b"", 2**63])
    if type(was) is bool:
        return not was
    if type(was) is int:
        return dice.choice([was + 1, was - 1, -was, was * 2, dice.choice(ODD), dice.randrange(9)])
    if type(was) is float:
        return dice.choice([0.0, -1.0, float("nan"), float("inf"), -was, 1e300, was * 1.5])
    if type(was) is str:
        at = dice.randrange(len(was) + 1)
        return dice.choice(
            [was[:at] + chr(dice.randrange(33, 127)) + was[at + 1 :], was[:at], was + " x", "", "k"]
        )
    return dice.choice([0, "", True])


# -- engines and what is asked of them ------------------------------------------------------------------


def engines(made: int = 4) -> Iterator[tuple[str, penstock.Engine]]:
    """Of every kind, with rows in them that were not read. made: how many of those with queries of all
    kinds."""
    rooms = [str(one) for one in Path(__file__).parents[1].iterdir() if one.is_dir()]
    sys.path += [one for one in rooms if one not in sys.path]  # tests take from each other
    import test_checkpoint

    for number, options in enumerate(OPTIONS[:made]):
        yield f"made {number}", test_checkpoint.make(**options)
    for seed in range(1, 1 << 20):
        drive = None
        with contextlib.suppress(Exception):
            script = draw_script(seed)
            drive = Drive(script)
            for step in script.steps:
                if not isinstance(step, Close):
                    drive.do(step, lambda *_: None)
        if drive is not None and drive.engine.queries:
            yield f"drawn {seed}", drive.engine


OPTIONS: list[dict[str, Any]] = [
    {}, {"sharing": "chain", "expiry": "nta"}, {"sharing": "push-down", "expiry": "time-message", "index":
    "t-tree"}, {"sharing": "unshared", "index": "b+tree"},
]  # fmt: skip


def ask(data: bytes) -> str:
    """What becomes of a checkpoint: `refused`, `fine`, or what went wrong."""
    began = time.process_time()
    try:
        engine = penstock.Engine.restore_bytes(data)
    except CheckpointError:
        return "refused" if time.process_time() - began < MOST_SECONDS else "slow to refuse"
    return stand(engine)


def stand(engine: penstock.Engine) -> str:
    """Rows, time beyond all windows, results, another checkpoint."""
    wrong = Counter[str]()
    said = {name: one.schema for name, one in engine._runtime.streams.items()}
    last = max(
        [one.watermark for one in engine._runtime.streams.values() if abs(one.watermark) < 1 << 61], default=0
    )
    last = max(last, 0) + 1
    for now in (last, last + 3):
        for name, schema in said.items():
            guarded(wrong, lambda: engine.push(name, rows_for(schema, now)))  # noqa: B023
    guarded(wrong, lambda: engine.advance(last + 1000))
    for query in list(guarded(wrong, lambda: list(engine.queries.values())) or []):
        guarded(wrong, lambda: read(query.results()))  # noqa: B023
        guarded(wrong, lambda: query.count)  # noqa: B023
    guarded(wrong, engine.stats)
    guarded(wrong, engine.explain)
    again = guarded(wrong, engine.checkpoint_bytes)
    if again is not None and not wrong:
        guarded(wrong, lambda: penstock.Engine.restore_bytes(again))
    return min(wrong) if wrong else "fine"


def read(results: pa.Table) -> None:
    """Every value; times as numbers, since Arrow has more of them than Python."""
    results.validate(full=True)
    for column in results.columns:
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def rows_for(schema: Any, now: int) -> dict[str, list[Any]]:
    """Rows that a stream takes."""
    values = {
        SqlType.BIGINT: [0, 1, 2, None, 1], SqlType.DOUBLE: [0.5, 1.5, None, 3.0, 7.0],
        SqlType.VARCHAR: ["s1", "a", None, "1", "s2"], SqlType.BOOLEAN: [True, False, None, True, True],
        SqlType.TIMESTAMP: [now, now, now + 1, now + 2, now + 2],
    }  # fmt: skip
    return {name: values[kind] for name, kind in zip(schema.columns, schema.types, strict=True)}


def guarded(wrong: Counter[str], action: Any) -> Any:
    try:
        return action()
    except penstock.StoppedError as error:
        if isinstance(error.__cause__, CheckpointError):
            wrong[f"{LATE}: {error}"[:300]] += 1
            return None
        causes = [*error.others, error.__cause__, error]
        for cause in causes:
            if cause is not None and not isinstance(cause, (PenstockError, *PLAIN_ERRORS)):
                wrong[described(cause)] += 1
        if "Error" in str(error) and not any(name in str(error) for name in PLAIN):
            wrong[described(error)] += 1
    except CheckpointError as error:
        wrong[f"{LATE}: {error}"[:300]] += 1
    except PenstockError:
        pass
    except Exception as error:
        wrong[described(error)] += 1
    return None


PLAIN = ("ArrowInvalid", "OverflowError", "ZeroDivision", "ArrowNotImplemented")


def described(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f"{os.path.basename(one.filename)}:{one.lineno}"
        for one in frames
        if "/penstock/" in one.filename or "/engine/" in one.filename
    ]
    return f"{type(error).__name__}: {str(error)[:160]} @ {' '.join(ours[-3:])}"


# -- copies of the process ----------------------------------------------------------------------------


def judged(mutants: list[tuple[str, bytes]]) -> Iterator[tuple[str, str, bytes]]:
    """What became of each, with what was changed."""
    at = 0
    while at < len(mutants):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            look(mutants[at:], writer)
        os.close(writer)
        answers, words = read_answers(reader, child, len(mutants) - at)
        os.close(reader)
        for answer in answers:
            yield (*mutants[at][:1], answer, mutants[at][1])
            at += 1
        if words and at < len(mutants):
            yield (*mutants[at][:1], words, mutants[at][1])
            at += 1


def look(mutants: list[tuple[str, bytes]], writer: int) -> None:
    """In the copy; never returns."""
    code = 1
    try:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        faulthandler.disable()
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))
        for _, data in mutants:
            answer = ask(data)
            os.write(writer, pickle.dumps(answer[:400]).hex().encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def read_answers(reader: int, child: int, count: int) -> tuple[list[str], str]:
    """What the copy has said, and in words why it did not go on."""
    answers: list[str] = []
    held = b""
    cpu, since = cpu_seconds(child), time.perf_counter()
    while len(answers) < count:
        ready, _, _ = select.select([reader], [], [], 0.5)
        if ready:
            more = os.read(reader, 1 << 16)
            if not more:
                break
            held += more
            *lines, held = held.split(b"\n")
            if lines:
                answers += [pickle.loads(bytes.fromhex(line.decode())) for line in lines]
                cpu, since = cpu_seconds(child), time.perf_counter()
        elif cpu_seconds(child) - cpu > HANGS_AFTER or time.perf_counter() - since > 120:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return answers, "hang"
    _, status = os.waitpid(child, 0)
    if len(answers) == count:
        return answers, ""
    return answers, f"crash: {signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status}"


HANGS_AFTER = 10.0
"""Seconds of processor time for one mutant, with all that is asked of its engine."""


def cpu_seconds(child: int) -> float:
    try:
        fields = open(f"/proc/{child}/stat").read().rpartition(")")[2].split()  # noqa: SIM115
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(count: int, first: int = 0, each: int = 200, keep: Any = None, made: int = 4) -> Counter[str]:
    """So many mutants, `each` of a checkpoint; what became of them. keep: is told of what went wrong."""
    said: Counter[str] = Counter()
    seed = first
    for name, engine in engines(made):
        data = engine.checkpoint_bytes()
        fine = ask(
            taken_apart(data).sealed()
        )  # and whatever is compiled is compiled before the copies are made
        assert fine == "fine", (name, fine)
        mutator = Mutator(taken_apart(data))
        upto = min(seed + each, first + count)
        while seed < upto:
            some = [mutator.mutant(one) for one in range(seed, min(seed + IN_A_CHILD, upto))]
            for words, answer, mutant in judged(some):
                said[answer] += 1
                if answer not in ("refused", "fine") and keep is not None:
                    keep(f"{name} {words}", answer, mutant)
            seed += len(some)
        if seed >= first + count:
            return said
    return said


if __name__ == "__main__":

    def tell(words: str, answer: str, mutant: bytes) -> None:
        print(f"{answer}\n      {words}", flush=True)

    found = run(int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0]), int((sys.argv[3:] or ["200"])[0]), tell)
    for answer, times in found.most_common():
        print(f"{times:7} {answer}")
    late = sum(times for answer, times in found.items() if answer.startswith(LATE))
    wrong = sum(found.values()) - found["refused"] - found["fine"] - late
    print(f"{sum(found.values())} mutants, {late} were refused by a push, {wrong} went wrong")
    sys.exit(wrong > 0)
