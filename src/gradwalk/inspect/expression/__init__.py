"""Expressions as text, read into graphs of Values."""
