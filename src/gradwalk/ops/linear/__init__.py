"""Matrix products and matrix decompositions."""
