"""Creation operations: constants and random numbers. They are leaves."""

from __future__ import annotations

from gradwalk.torch.translate.table import LEAF, direct

direct(
    "arange arange.start arange.start_step empty.memory_format empty_like empty_permuted "
    "empty_strided eye eye.m full full_like linspace logspace new_empty new_empty_strided new_full "
    "new_ones new_zeros ones ones_like scalar_tensor tril_indices triu_indices zeros zeros_like "
    "zero fill.Scalar hann_window hamming_window blackman_window kaiser_window bartlett_window "
    "bernoulli.p bernoulli_.float cauchy exponential geometric log_normal normal_ "
    "normal.float_float normal_functional rand rand.generator rand_like randint randint.generator "
    "randint.low randint.low_generator randint_like randint_like.low_dtype randn randn.generator "
    "randn_like random random.from random.to randperm randperm.generator uniform",
    LEAF,
    "",
)
