"""The stages of `document_bundles`, each from a table of the run's folder to the next.

What a stage has finished is a receipt in the folder; it is not done again.
"""
