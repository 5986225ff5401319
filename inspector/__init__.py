"""Views of finished datasets, for people."""
