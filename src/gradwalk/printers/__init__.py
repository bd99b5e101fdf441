"""Printers: a graph, a formula or a tensor as text for one kind of reader."""
