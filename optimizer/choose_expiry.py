"""Which approach to expiry a query runs with."""

from __future__ import annotations

from penstock.engine.build_operator import Approach

APPROACHES: dict[str, Approach] = {
    "auto": "promises",
    "ita": "ita",
    "nta": "nta",
    "time-message": "time-message",
    "piggyback": "piggyback",
}


def choose_expiry(forced: str) -> Approach:
    """The approach forced by name; auto: with every promise, which no message has to be sent for."""
    return APPROACHES[forced]
