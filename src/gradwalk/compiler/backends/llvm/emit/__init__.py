"""Emitting LLVM text: functions, vector values, one table of elementwise ops."""
