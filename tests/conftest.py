"""Shared by all tests: settings for property tests, weights that do not depend on the machine, real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest.register_assert_rewrite("cli_help", "files_help", "functions_oracle", "oracle")

settings.register_profile(
    "penstock",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.register_profile("draft", settings.get_profile("penstock"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("draft" if os.environ.get("PENSTOCK_DRAFT") else "penstock")  # draft: without shrinking

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def _shipped_weights(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Calibrations of the machine the tests run on must not change plans."""
    os.environ["PENSTOCK_HOME"] = str(tmp_path_factory.mktemp("penstock-home"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real streams; they are not part of the repository."""
    if not DATA.exists():
        pytest.skip("the real streams (room_climate.parquet ...) are not beside this checkout")
    return DATA
