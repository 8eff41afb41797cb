"""The lowest versions that pyproject.toml allows, as constraints for pip.

python tests/lowest.py > lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"([\w-]+)>=([\d.]+)")


def main() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    bounds = sorted({found.groups() for one in wanted for text in one if (found := BOUND.match(text))})
    print("\n".join(f"{name}=={version}" for name, version in bounds))


if __name__ == "__main__":
    main()
