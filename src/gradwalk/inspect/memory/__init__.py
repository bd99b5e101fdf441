"""What a graph keeps for backward, and where to checkpoint."""
