"""Times and lengths of time as a person writes them."""

from __future__ import annotations

UNITS_US = (
    ("DAY", 86_400_000_000),
    ("HOUR", 3_600_000_000),
    ("MINUTE", 60_000_000),
    ("SECOND", 1_000_000),
    ("MILLISECOND", 1_000),
    ("MICROSECOND", 1),
)


def write_duration(us: int) -> str:
    """Microseconds in the largest unit that divides them: 3_600_000_000 is `1 HOUR`."""
    for name, size in UNITS_US:
        if us % size == 0 and us:
            return f"{us // size} {name}{'S' if abs(us // size) != 1 else ''}"
    return "0 SECONDS"


def write_span(us: int) -> str:
    """Microseconds for people: from a second on in seconds with a fraction, below that exactly."""
    return f"{us / 1e6:.3f}".rstrip("0").rstrip(".") + " SECONDS" if us >= 2_000_000 else write_duration(us)


def write_time(us: int) -> str:
    """Microseconds since the epoch as ISO text, `2016-10-01 12:00:00.5`; the number itself past year 9999."""
    import datetime

    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)
    except OverflowError:
        return f"{us} us"
    return moment.isoformat(sep=" ")
