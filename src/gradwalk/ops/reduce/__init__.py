"""Ops that reduce, scan, order or summarize elements."""
