"""What people decide on rows: log, rulings, fixes, and the run they are applied to."""
