"""Guide a small model through episodes over a knowledge graph along the gold decomposition."""
