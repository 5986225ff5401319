"""MCTS trajectories (MSearcher): questions to search trees to trajectories."""
