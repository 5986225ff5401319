"""Apache Beam pipelines, one per dataset, which only wire; `shards` holds the one DoFn and the exactly-once rule."""
