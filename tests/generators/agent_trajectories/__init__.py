"""Agent trajectories: filters, draws, runs."""
