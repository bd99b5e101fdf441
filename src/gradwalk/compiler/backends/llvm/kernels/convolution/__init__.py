"""Convolutions: one register tile that reads images where they are, and three kernels around it."""
