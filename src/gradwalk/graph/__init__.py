"""The graph: nodes, the order to visit them in, and where in the source each was made."""
