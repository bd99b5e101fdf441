"""The walk: a trace step by step, forward and backward."""
