"""A data set of somebody else's, and all that a run of it goes through."""
