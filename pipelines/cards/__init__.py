"""Data set cards: text, licences, figures."""
