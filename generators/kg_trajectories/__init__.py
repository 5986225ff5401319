"""KG trajectories (DynaSearcher): questions and a knowledge graph to annotated search episodes."""
