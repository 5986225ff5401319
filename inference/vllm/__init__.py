"""Starts, watches and measures a vLLM server."""
