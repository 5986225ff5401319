"""How agents came to their answers, in whatever record: which way is the better one, and what it passes over."""
