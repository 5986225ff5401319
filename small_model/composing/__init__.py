"""Rules for `bundle_steps`: find what documents share, and rewrite what they say about it."""
