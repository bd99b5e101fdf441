"""Ops that read or write elements by index, mask or row number."""
