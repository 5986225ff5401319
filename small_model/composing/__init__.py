"""Rules for `bundle_steps`: find what documents have in common, and rewrite what they say about it."""
