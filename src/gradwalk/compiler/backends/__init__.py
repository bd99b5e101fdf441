"""Backends: each runs a Program."""
