"""Views of a training set for other trainers."""
