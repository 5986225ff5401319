"""Facts of a knowledge graph that lead to one entity: sampled, counted, and shown to need each other.

Pure but for the random numbers of the seed: the same store, configuration and seed give the same chains.
"""
