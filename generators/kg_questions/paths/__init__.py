"""Facts of a knowledge graph that lead to one entity: sampled, counted, and shown to need each other.

    for chain in sample_shapes(store, KgPathConfig(), seed=0, count=1000): ...

Pure but for the random numbers of the seed: the same store, configuration and seed give the same chains.
"""

from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph
from trailforge.generators.kg_questions.paths.query import Link, Node, answers, left_without
from trailforge.generators.kg_questions.paths.sampling import PathSampler, sample_shapes

__all__ = ["Graph", "KgPathConfig", "Link", "Node", "PathSampler", "answers", "left_without", "sample_shapes"]
