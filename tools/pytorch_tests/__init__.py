"""Runs PyTorch's own test files against gradwalk, and sorts what they find.

PyTorch's tests are not part of this project: unpack its source anywhere, for example with
`apt-get source --download-only pytorch`, and name the files:

    python -m tools.pytorch_tests path/to/test/test_indexing.py --out indexing.jsonl
"""
