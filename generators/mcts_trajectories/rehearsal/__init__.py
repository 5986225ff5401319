"""Rehearse a search without a model, in a simulated world that behaves as was counted in recorded runs."""
