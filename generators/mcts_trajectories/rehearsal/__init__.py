"""Rehearse a search without a model, in a made-up world that behaves as was counted in recorded runs."""
