"""Passes: each takes a program and returns another (`pipeline.py` has their order)."""
