"""Sample paths of facts in a knowledge graph that lead to one entity, and check that no fact of a path is needless.

Pure but for the random numbers of the seed: the same store, configuration and seed give the same chains.
"""
