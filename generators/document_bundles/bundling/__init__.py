"""What the pipeline `document_bundles` does to documents, as pure functions: no Beam, no files, no model.

In the order of use: `normalise` cleans a text, `duplicates` finds exact and near copies, `content` judges what is left,
`clustering` bundles documents by their vectors, `measures` says how good the bundles are, `plots` shows them.
"""
