"""Indexes of any back end in folders: built shard by shard, described by a sealed manifest, opened through it."""
