"""Recording a PyTorch program as a trace."""
