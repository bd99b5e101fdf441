"""Ops that networks are built from: softmax, losses, convolution, attention, recurrence."""
