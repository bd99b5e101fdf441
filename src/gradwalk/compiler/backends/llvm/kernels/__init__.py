"""The kernels: one generator for each kind of loop."""
