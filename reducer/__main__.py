"""`python -m reducer`."""

from reducer.cli import main

main()
