"""`python -m trailforge`: the command line."""

from trailforge.cli import main

main()
