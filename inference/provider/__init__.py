"""Differences between OpenAI-compatible servers: parameters, replies, finish reasons, errors, pace and URLs."""
