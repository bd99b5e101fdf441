"""Traces: recording a computation, reading and writing the file, computing with a trace."""
