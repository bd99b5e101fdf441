"""The ops of a Program as nodes of an ONNX graph, by family."""
