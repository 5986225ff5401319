"""What belongs to nightly runs: windows, their questions, their status, bands, retention."""
