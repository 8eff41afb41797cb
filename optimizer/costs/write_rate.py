"""How EXPLAIN writes a rate."""

from __future__ import annotations


def write_rate(per_second: float) -> str:
    """Rows or pairs per second, two digits of few: a sensor that speaks twice a minute is not dead.

    >>> write_rate(12_345.6), write_rate(1.25), write_rate(0.0333), write_rate(0.0)
    ('12,346', '1.2', '0.033', '0')
    """
    return f"{per_second:,.0f}" if per_second >= 9.5 else f"{per_second:.2g}"
