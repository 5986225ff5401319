"""The steps of the pipeline `document_bundles` as pure functions of documents: no Beam, no files, no model.

In the order of use: `content` judges a text, `duplicates` finds exact and near copies, `measures` weighs the names of
what is left, `clustering` bundles documents by their vectors, and `measures` says how good the bundles are.
"""
