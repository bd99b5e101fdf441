"""The order lab: a backward pass in any visit order."""
