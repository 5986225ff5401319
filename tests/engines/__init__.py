"""Our parts inside training engines, each in an environment of its own."""
