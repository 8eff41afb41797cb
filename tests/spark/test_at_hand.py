"""Engines that Spark's processes keep between batches: the right one or none, and none for long."""

from __future__ import annotations

import gc
import time
import weakref

import penstock
from penstock.connectors.spark.at_hand import EnginesAtHand


def test_the_engine_of_a_place_and_mark() -> None:
    engines = EnginesAtHand()
    one, other = penstock.Engine(), penstock.Engine()
    engines.keep("a", 1, one)
    engines.keep("b", 1, other)
    assert engines.take("c", 1) is None
    assert engines.take("a", 1) is one
    assert engines.take("a", 1) is None, "it is out"
    assert engines.take("b", 2) is None
    assert engines.take("b", 1) is None, "of a state that nobody has any more"
    assert len(engines) == 0


def test_engines_of_queries_that_have_ended_go() -> None:
    """By themselves: nobody asks for anything any more. One that is asked for stays."""
    engines = EnginesAtHand(kept_s=0.4)
    gone = []
    for number in range(50):
        engine = penstock.Engine()
        gone.append(weakref.ref(engine))
        engines.keep(number, 0, engine)
    del engine
    used = penstock.Engine()
    engines.keep("used", 0, used)
    began = time.monotonic()
    for mark in range(200):
        taken = engines.take("used", mark)
        assert taken is used
        engines.keep("used", mark + 1, taken)
        if len(engines) == 1:
            break
        time.sleep(0.05)
    assert time.monotonic() - began > 0.3
    assert len(engines) == 1
    gc.collect()
    assert [one() for one in gone] == [None] * 50
    for _ in range(200):
        if not len(engines):
            break
        time.sleep(0.05)
    assert len(engines) == 0
    engines.keep("again", 0, used)
    assert engines.take("again", 0) is used
