"""Whether the gradients of a network are healthy, now and during training."""
