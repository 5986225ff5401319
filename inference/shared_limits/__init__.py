"""Limits on calls that hold over several processes."""
