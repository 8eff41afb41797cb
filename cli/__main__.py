"""`python -m penstock.cli`."""

from .entry import main

main()
