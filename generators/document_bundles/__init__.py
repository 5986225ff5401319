"""Bundles (R-Search): documents to bundles to questions to episodes."""
