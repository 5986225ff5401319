"""Supervised training and reinforcement learning by TRL's trainers, with masks, episodes and rewards of our own."""
