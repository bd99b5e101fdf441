"""The tests; the folders below mirror src/gradwalk."""
