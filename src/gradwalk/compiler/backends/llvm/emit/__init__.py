"""Emitting LLVM text: builders of functions and kernels, vectors, one table of elementwise ops."""
