"""Errors have the names by which users catch them, in tracebacks and everywhere."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import penstock
from penstock.engine.restoring.restorable import found, name_of

ERRORS = [one for one in vars(penstock).values() if isinstance(one, type) and issubclass(one, Exception)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_is_named_as_users_name_it(error: type[Exception]) -> None:
    assert repr(error) == f"<class 'penstock.{error.__name__}'>"
    assert found(name_of(error)) is error, "a checkpoint may hold it"
    assert type(pickle.loads(pickle.dumps(error("why")))) is error


def test_a_traceback_ends_with_it() -> None:
    code = "import penstock; penstock.Engine(late='never')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr.splitlines()[-1].startswith("penstock.UsageError: Expected")
