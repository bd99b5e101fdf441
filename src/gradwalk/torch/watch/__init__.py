"""Watching a PyTorch training loop, and stopping before a harmful step."""
