"""Finding rows of a run's tables by what a person types."""
