"""The stages, each from a table of the run's folder to the next."""
