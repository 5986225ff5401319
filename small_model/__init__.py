"""What the packaged 135M model needs in place of a large one: rules, grammars, guided episodes, its server."""
