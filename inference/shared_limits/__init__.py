"""Limits on calls that several processes share."""
