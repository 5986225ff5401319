"""How an agent talks: one grammar per protocol, and what all protocols share."""
