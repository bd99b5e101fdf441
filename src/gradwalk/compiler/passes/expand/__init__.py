"""Passes that replace an op by its definition in other ops."""
