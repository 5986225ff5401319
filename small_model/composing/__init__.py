"""What rules do for `generators.bundle_steps`: find what documents share, and rewrite what they say about it."""
