"""Shared by all tests: settings for property tests, weights that do not depend on the machine, real data."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from draws.named_cases import add_named_items, read_cases
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
sys.path[1:1] = [str(room) for room in sorted(TESTS.glob("**/")) if any(room.glob("*.py"))]
"""Tests and their helpers name each other by file, whatever room they lie in."""

pytest.register_assert_rewrite("cli_help", "files_help", "functions_oracle", "oracle")

settings.register_profile(
    "fresh",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.register_profile("draft", settings.get_profile("fresh"), phases=(Phase.explicit, Phase.generate))
settings.register_profile("fixed", settings.get_profile("fresh"), derandomize=True, database=None)
settings.register_profile(
    "quick",
    settings.get_profile("fixed"),
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
# fixed: the same cases in every run, so that none depends on luck. fresh: others each time (`make draws`).
# draft: those without shrinking. quick: the fixed ones, to know whether any fails (`make mutants`).
settings.load_profile(os.environ.get("PENSTOCK_DRAWS", "fixed"))


def draw_no_constants_of_modules() -> None:
    """Now and then hypothesis draws a constant of our modules; which depends on what is loaded."""
    with suppress(ImportError):  # a release that does not do so
        providers = importlib.import_module("hypothesis.internal.conjecture.providers")
        if hasattr(providers, "_get_local_constants"):
            vars(providers)["_get_local_constants"] = lambda: vars(providers)["_local_constants"]


if settings.default.derandomize:
    draw_no_constants_of_modules()

DATA = TESTS.parents[1] / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def _shipped_weights(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Calibrations of the machine the tests run on must not change plans."""
    os.environ["PENSTOCK_HOME"] = str(tmp_path_factory.mktemp("penstock-home"))


@pytest.fixture(autouse=True, scope="session")
def _kept_promises() -> Iterator[None]:
    """Wherever rows and promises flow in a test, nobody breaks his word."""
    from kept_promises import kept_promises

    with kept_promises():
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real streams; they are not part of the repository."""
    if not DATA.exists():
        pytest.skip("the real streams (room_climate.parquet ...) are not beside this checkout")
    return DATA


def is_of_spark(file: str) -> bool:
    return file.startswith("test_spark")


LONGEST = [
    f"test_{name}.py"
    for name in (
        "hopping_store", "window_store", "checkpoint", "modes_oracle", "sharing", "sharing_real",
        "changes_oracle", "checkpoint_drawn", "chain_merging", "alter_changes", "sharing_delivery",
        "many_join", "sharing_memory", "bench_sharing", "indexes", "cli_pipes", "join_oracle", "late_parts",
        "cli_startup",
    )
]  # fmt: skip
"""Files that take more than ten seconds, beside those of Spark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no process is left with it when the others are done."""
    add_named_items(items, read_cases())
    places = {name: place for place, name in enumerate(LONGEST, 1)}

    def place(item: pytest.Item) -> int:
        file = item.path.name
        return 0 if is_of_spark(file) else places.get(file, len(places) + 1)

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is loaded stays: the collector of cycles need not walk over it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Libraries count what is left when the process ends."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, a process takes a file's tests, and one takes all tests of Spark.

    A session of Spark's is set up once then, and so are the fixtures of a module. xdist's own groups, made
    of marks, are not to be relied on: with pytest 9.2 xdist 3.8 does not see them, and says nothing.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = Path(nodeid.split("::", 1)[0]).name
            return "spark" if is_of_spark(file) else file

    config.option.loadscopereorder = False  # the order is that of the collection, not most tests first
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """No promise was broken, whoever caught the error; a test marked as a twin of kernels called them."""
    from kept_promises import SEEN

    SEEN.clear()
    done = yield from called_kernels(item)
    if SEEN:
        pytest.fail(f"expected promises to be kept, found: {SEEN[0]}")
    return done


def called_kernels(item: pytest.Item) -> Generator[None, object, object]:
    """The test, and whether it has called the kernels of which it is a twin."""
    names = {name for mark in item.iter_markers("twin") for name in mark.args}
    if not names or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return (yield)
    from kernel_twins import kernel_of, watched_calls

    with watched_calls() as called:
        done = yield
    missing = sorted(name for name in names if id(kernel_of(name)) not in called)
    if missing:
        pytest.fail(f"expected calls of the kernels that the test is marked with, found none of {missing}")
    return done


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests: starting it takes as long as fifty of them."""
    from spark_help import QUICK

    from penstock import UsageError
    from penstock.connectors.spark.java import provide_java
    from penstock.connectors.spark.session import local_session

    try:
        provide_java()
    except UsageError as error:
        pytest.skip(str(error))
    session = local_session(settings=QUICK)
    yield session
    session.stop()
