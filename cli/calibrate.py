"""`penstock calibrate`: what the cost model counts with, measured here."""

from __future__ import annotations

import sys

import click


@click.command()
def calibrate() -> None:
    """Measure the cost model's weights here.

    They are kept for this machine and used from then on.
    """
    import dataclasses

    from rich.console import Console
    from rich.table import Table

    from penstock.optimizer.calibrate.calibrate import calibrate as measure
    from penstock.optimizer.costs.weights import save

    from .session import note

    weights = measure(note)
    path = save(weights)
    table = Table("weight", "nanoseconds", title="What an access costs on this machine", title_justify="left")
    table.columns[1].justify = "right"
    for name, value in dataclasses.asdict(weights).items():
        if isinstance(value, float):
            table.add_row(name.replace("_", " "), f"{value * 1e9:,.2f}")
    Console(file=sys.stdout).print(table)
    click.echo(f"Stored in {path}")
