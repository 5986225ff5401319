"""Read question sets in the shapes they are published in: one module for each data set."""
