"""`penstock bench`: what we claim, measured."""

from __future__ import annotations

from pathlib import Path

import click

NEEDED = ("duckdb", "matplotlib", "polars")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--quick", is_flag=True, help="Small inputs: does it run, rather than how fast.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench-results"),
    show_default=True,
    metavar="DIR",
    help="Where figures and tables go.",
)
def bench(names: tuple[str, ...], quick: bool, out: Path) -> None:
    """Run the benchmarks, all or those named."""
    import importlib.util

    from penstock.engine.rows.errors import UsageError

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        found = ", ".join(f"`{name}`" for name in missing)
        raise UsageError(
            f"Expected the benchmarks' packages, found no {found}; pip install 'penstock[bench]'"
        )
    from penstock.bench.main import run

    raise click.exceptions.Exit(run(list(names), quick, out))
