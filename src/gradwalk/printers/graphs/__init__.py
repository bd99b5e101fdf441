"""Graphs as drawings, tables and data."""
