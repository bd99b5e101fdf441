"""The LLVM backend: a Program as native code."""
