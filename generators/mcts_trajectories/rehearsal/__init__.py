"""A search rehearsed without a model: a made-up world that behaves as was counted from recorded runs."""
