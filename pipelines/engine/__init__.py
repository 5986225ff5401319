"""Runs shards exactly once: attempts, workers, runners, files. Beam is loaded here alone."""
