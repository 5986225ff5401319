"""Training data for LLM search agents, and training on it."""
