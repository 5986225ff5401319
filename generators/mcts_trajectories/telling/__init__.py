"""How a finished trajectory is told: its turns, the model's words for them, and what the model says against it."""
