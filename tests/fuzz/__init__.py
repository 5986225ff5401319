"""Parsers of text that others wrote, held against hostile inputs: `python -m tests.fuzz`, and a short form in CI."""
