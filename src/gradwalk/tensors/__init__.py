"""Tensors: the class, applying ops to tensors, in-place changes, creation, devices."""
