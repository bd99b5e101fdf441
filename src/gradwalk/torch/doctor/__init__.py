"""What the doctor needs of PyTorch: observing a training loop, and explaining its errors."""
