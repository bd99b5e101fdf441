"""The methods of Tensor and Symbol."""
