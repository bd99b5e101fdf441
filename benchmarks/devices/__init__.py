"""Training steps on one GPU: gradwalk beside PyTorch and hand-written JAX, interleaved.

python -m benchmarks.devices               every row and contestant
python -m benchmarks.devices gpt2 char     some rows
python -m benchmarks.devices gpt2 --only gradwalk jax
"""
