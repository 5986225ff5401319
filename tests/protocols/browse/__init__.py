"""The protocol with several tools."""
