"""From rows to a trained agent: configurations, scoring of transcripts, and what training frameworks call."""
