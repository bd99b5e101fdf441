"""What a PyTorch model keeps for backward, and what to checkpoint after an out-of-memory error."""
