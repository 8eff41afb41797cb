"""`penstock explain`: the plan, without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from .options import InputCommand, input_option, plan_options, queries_argument, time_unit_option

EPILOG = """\b
Example:
  penstock explain queries.sql -i temperature=temps.parquet
"""


@click.command(cls=InputCommand, epilog=EPILOG)
@queries_argument
@input_option("Estimate the stream's rate from this file.")
@time_unit_option
@plan_options
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON.")
def explain(
    queries: str,
    inputs: tuple[str, ...],
    time_units: tuple[str, ...],
    sharing: str,
    index: str,
    expiry: str,
    modes: str | Mapping[str, str],
    optimize: str,
    as_json: bool,
) -> None:
    """Show the plan of the queries of a file.

    It comes with what the cost model expects. With -i, rates are taken from the files: row counts and times
    in Parquet's footer, else the first rows.
    """
    click.echo(explain_plan(queries, inputs, sharing, index, expiry, as_json, modes, optimize, time_units))


def explain_plan(
    queries: str,
    inputs: Sequence[str],
    sharing: str = "auto",
    index: str = "auto",
    expiry: str = "auto",
    as_json: bool = False,
    modes: str | Mapping[str, str] = "auto",
    optimize: str = "exhaustive",
    time_units: Sequence[str] = (),
) -> str:
    """The plan of the statements in the file `queries`, planned for the rates of `inputs`."""
    from penstock.connectors.open_inputs import in_unit
    from penstock.connectors.rates import estimate_rate

    from .session import load_engine, match_inputs, match_units

    engine = load_engine(queries, sharing, index, expiry, modes=modes, optimize=optimize)
    units = match_units(engine, time_units)
    for stream, files in match_inputs(engine, inputs).items():
        if stream in engine.tables:
            continue
        schema = in_unit(engine.streams[stream], units.get(stream))
        time_column = engine.time_column(stream)
        rates = [estimate_rate(paths, schema, time_column) for paths in files]
        if known := [rate for rate in rates if rate is not None]:
            engine.set_rate(stream, sum(known))
    if inputs:
        engine.plan_again()  # now that the rates are known
    return engine.explain(json=as_json)
