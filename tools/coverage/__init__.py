"""The table of docs/pytorch/coverage.md: what gradwalk.torch does on many architectures.

`python -m tools.coverage` measures what results.json lacks and writes the page;
`python -m tools.coverage Qwen3 timm/` measures again what these names are part of.
"""
