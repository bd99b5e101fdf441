"""Tracing: run a function once on abstract arrays."""
