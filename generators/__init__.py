"""From one item to its records: one module per dataset, and what they share."""
