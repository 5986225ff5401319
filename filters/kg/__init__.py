"""Filters of questions from a knowledge graph, and of episodes that search one."""
