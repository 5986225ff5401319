"""A run's folder: settings, intake, books, manifest, verification, status."""
