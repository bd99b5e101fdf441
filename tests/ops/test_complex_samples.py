"""PyTorch's own samples of complex numbers: the same results and gradients, or a refusal.

A function of ours that PyTorch has for complex numbers must give PyTorch's results and gradients;
if it does not take them, it is listed here and must say so. A function that refuses complex numbers
in PyTorch must refuse them here too, or is listed.
"""

from __future__ import annotations

import math
import string
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import gradwalk as gw
from tests.ops.test_pytorch_samples import (
    KNOWN,
    LARGEST,
    Known,
    NotOurs,
    as_leaves,
    database,
    drawn,
    full_name,
    our_function,
    outcome,
    quietly,
    translated,
    variants,
)

pytestmark = pytest.mark.slow

INITIALS = [*string.ascii_letters, "_"]
MOST = {torch.complex128: 10, torch.complex64: 4}  # samples of one function

# PyTorch has them for complex numbers, we have not: an error says so.
REFUSED = """
    log_softmax.with_dtype logaddexp logcumsumexp logsumexp nn.functional.rms_norm
    masked.logsumexp masked.std masked.var nn.functional.softmin.with_dtype sinc softmax.with_dtype
"""
# Names of ours that mean something else: dtypes.
NAMESAKES = {"cdouble", "cfloat"}
# We have them for complex numbers, PyTorch has not: their rules are the same as for real ones.
BEYOND = """
    bmm.triton_optimized cdist deg2rad isin isneginf isposinf nan_to_num nn.functional.alpha_dropout
    nn.functional.batch_norm nn.functional.bilinear nn.functional.dropout
    nn.functional.feature_alpha_dropout.with_train
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.glu
    nn.functional.interpolate.nearest nn.functional.interpolate.nearest-exact
    index_reduce.mean index_reduce.prod nn.functional.nll_loss nn.functional.pdist
    nn.functional.silu rad2deg scatter_reduce.mean scatter_reduce.prod scatter_reduce.sum
    _native_batch_norm_legit native_batch_norm select_scatter sign slice_scatter geometric
    nn.functional.upsample_nearest
"""
refused, beyond = set(REFUSED.split()), set(BEYOND.split())
ORDER = Known("values gradients", "the order of eigenvalues is not determined", "complex64")
OF_COMPLEX = {
    "cov": Known("gradients", "of weights that leave no freedom, terms of 1e13 cancel"),
    "linalg.eig": ORDER,
    "linalg.eigvals": ORDER,
    "linalg.householder_product": Known("gradients", "PyTorch's are less exact", "complex64"),
    "pca_lowrank": Known("gradients", "PyTorch's are estimates", "complex64"),
    "renorm": Known("gradients", "PyTorch's are NaN", when=lambda s: s.args[0] == math.inf),
}


def supported(description: Any) -> list[torch.dtype]:
    return [dtype for dtype in MOST if description.supports_dtype(dtype, "cpu")]


def descriptions(initial: str, takes: bool) -> Iterator[Any]:
    """The functions of both libraries of which PyTorch has complex ones, or has none."""
    for name, found in database().items():
        if (
            found  # another test may have asked for a name that is not there
            and name.startswith(initial)
            and name not in NAMESAKES
            and our_function(found[0]) is not None
        ):
            yield from (d for d in found if bool(supported(d)) is takes)


@pytest.mark.parametrize("initial", INITIALS)
def test_as_pytorch(initial: str) -> None:
    wrong = []
    for description in descriptions(initial, takes=True):
        name = full_name(description)
        known = OF_COMPLEX.get(name) or KNOWN.get(name, Known("", ""))
        for dtype in () if name in refused else supported(description):
            samples = quietly(drawn, description, dtype, description.supports_autograd)
            for sample in samples[:: -(-len(samples) // MOST[dtype]) or 1]:
                differs = known.dtype in ("", str(dtype).removeprefix("torch."))
                left = known.left_out if differs and known.when(sample) else ""
                for mine, theirs, kind in variants(description):
                    skipped = left + " gradients" if kind == "method" else left
                    text = outcome(sample, mine, theirs, kind, skipped)
                    if text and "has no attribute" not in text:
                        wrong.append(f"{name} {kind} {dtype}: {text}\n  {sample.summary()}")
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(wrong[:5])


def in_complex(thing: Any) -> Any:
    """What a sample of real numbers holds, with complex ones in place of floats."""
    if isinstance(thing, torch.Tensor) and thing.is_floating_point():
        if thing.numel() > LARGEST:
            raise NotOurs
        return gw.from_numpy(thing.numpy() * (1 + 0.5j))
    if isinstance(thing, (list, tuple)):
        return type(thing)(in_complex(t) for t in thing)
    if isinstance(thing, dict):
        return {key: in_complex(value) for key, value in thing.items()}
    return translated(thing, [])


def refusal(description: Any, samples: list[Any]) -> bool:
    """Whether our function refuses every sample; samples that cannot be complex are left out."""
    for sample in samples:
        if not isinstance(sample.input, torch.Tensor) or not sample.input.is_floating_point():
            continue
        try:
            x, args, keywords = in_complex([sample.input, list(sample.args), sample.kwargs])
        except (NotOurs, TypeError):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                our_function(description)(x, *args, **keywords)
        except (TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError):
            continue
        return False
    return True


@pytest.mark.parametrize("initial", INITIALS)
def test_what_pytorch_refuses_is_refused(initial: str) -> None:
    taken = [
        full_name(description)
        for description in descriptions(initial, takes=False)
        if description.supports_dtype(torch.float64, "cpu")
        and not refusal(description, quietly(drawn, description, torch.float64, False)[:3])
    ]
    assert set(taken) <= beyond


def test_what_we_do_not_have_says_so() -> None:
    listed = {full_name(d): d for found in database().values() for d in found}
    assert set(listed) >= refused | beyond
    for name in refused:
        samples = quietly(drawn, listed[name], torch.complex128, False)
        assert any(says_so(our_function(listed[name]), sample) for sample in samples), name


def says_so(function: Any, sample: Any) -> bool:
    whole = [sample.input, list(sample.args), sample.kwargs]
    x, args, keywords = translated(as_leaves(whole, []), [])
    try:
        function(x, *args, **keywords)
    except TypeError as error:
        return "complex" in str(error) or "imaginary" in str(error)
    return False
