"""Which mistake is it? Gradients checked against differences, and the mistake named."""
