"""Runs and trainings on one machine or many: what is launched, and how it is handed to a cluster."""
