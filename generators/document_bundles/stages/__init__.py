"""The stages of a run of bundles, each of which turns one table of the run's folder into the next."""
