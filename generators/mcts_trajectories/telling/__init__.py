"""Tell a finished trajectory: its turns, the model's words for them, and what the model says against it."""
