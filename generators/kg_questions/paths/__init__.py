"""Sample facts of a knowledge graph that lead to one entity, count them, and show that they need each other.

Pure but for the random numbers of the seed: the same store, configuration and seed give the same chains.
"""
