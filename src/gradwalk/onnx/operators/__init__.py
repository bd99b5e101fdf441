"""ONNX's operators, by family."""
