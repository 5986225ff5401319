"""Launches runs and trainings on one machine or many: writes the files of a launch, and hands them to a cluster."""
