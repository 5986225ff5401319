"""Question sets in the shapes they are published in: one module per data set."""
