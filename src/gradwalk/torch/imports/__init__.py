"""A PyTorch model as a gradwalk function."""
