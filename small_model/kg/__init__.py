"""Episodes over a knowledge graph that lead a small model along the gold decomposition."""
