"""vmap of every function that both have, on PyTorch's own samples: values and gradients."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.batches import batched
from tests.batching.pytorch_samples import CHOICES, outcome, samples_of
from tests.ops.test_pytorch_samples import COMPLEX, NAMES, database, full_name

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),  # PyTorch
]

SHAPES = "the shape of the result depends on the numbers of each sample"
MEMORY = "the strides are those of the memory of one sample"
STATISTICS = "running statistics that the samples share would be written by each of them"
# What is refused with a VmapError, in some of its calls, and why.
REFUSED = {
    **dict.fromkeys(
        ("argwhere", "bincount", "index_put", "masked_select", "nn.functional.one_hot",
         "nonzero", "repeat_interleave", "to_sparse", "unique", "unique_consecutive"), SHAPES,
    ),
    **dict.fromkeys(("as_strided", "as_strided_copy"), MEMORY),
    **dict.fromkeys(
        ("_native_batch_norm_legit", "native_batch_norm", "nn.functional.batch_norm",
         "nn.functional.instance_norm"),
        STATISTICS,
    ),
}  # fmt: skip
# PyTorch's vmap fills every sample at the indices of all samples if they share the tensor, and of
# no matrices it makes one result for all samples.
WRONG_IN_PYTORCH = {("index_fill", "others"), ("linalg.pinv", "others")}
WITHOUT_TENSORS = {
    "scalar_tensor", *(name for name in NAMES if name.startswith("signal.")),
    "arange", "broadcast_shapes", "empty", "empty_permuted", "empty_strided", "eye", "full", "ones",
    "rand", "randint", "randn",
    "tril_indices", "triu_indices", "zeros",
}  # fmt: skip
NOT_COMPARED = {
    "nn.functional.ctc_loss",  # PyTorch's gradient is that of the scores
    "nn.functional.linear_cross_entropy",  # PyTorch's chunks have no gradient inside vmap
    "as_strided_scatter",  # PyTorch counts the offset in the memory of all samples
    "svd_lowrank",  # PyTorch's is an estimate
    "special.bessel_j0",
    "special.bessel_j1",  # PyTorch's have errors of 2e-7
    "histogramdd",  # PyTorch's vmap has none
    "resize_",
    "resize_as_",  # a sample has no memory of its own: refused
    "zero_",  # its gradient is 0; inside vmap the result does not require one
    "select_scatter",  # PyTorch's gradient of src is too large by the length of the dimension
    *COMPLEX.split(),
    "linalg.eig",
    "linalg.eigvals",  # vmap refuses complex numbers
}
OF_NUMBERS = {"allclose", "equal", "item"}  # they return Python's
UNLIKE = {"bfloat16", "half", "to"}  # dtypes that are compared elsewhere


@batched("name", [n for n in NAMES if n not in NOT_COMPARED], key=lambda name: name[0])
def test_as_pytorch(name: str) -> None:
    found: Counter[str] = Counter()
    wrong = []
    for description, sample in samples_of(name):
        for choice in CHOICES:
            if (name, choice) in WRONG_IN_PYTORCH:
                continue
            result, text = outcome(description, sample, choice)
            found[result] += 1
            if result == "differs" or (result == "refused" and name not in REFUSED):
                wrong.append(f"{full_name(description)}, {choice}: {text}\n  {sample.summary()}")
    assert not wrong, f"{len(wrong)} calls differ:\n" + "\n".join(wrong[:5])
    nothing = {*WITHOUT_TENSORS, *OF_NUMBERS, *UNLIKE}
    assert found["equal"] or name in nothing or name in REFUSED or not database()[name]
    assert found["refused"] or name not in REFUSED, "it is not refused any more"
