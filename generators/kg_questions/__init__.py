"""Questions made of a knowledge graph."""
