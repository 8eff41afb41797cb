"""`python -m penstock.cli`."""

from .main import main

main(prog_name="penstock")
