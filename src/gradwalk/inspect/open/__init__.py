"""Opening a node: a composite as its operations, one element as numbers."""
