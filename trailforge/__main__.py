"""Run the command line by `python -m trailforge`."""

from trailforge.cli import main

main()
