"""Layers, by family."""
