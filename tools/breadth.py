"""Generate docs/pytorch/breadth.md: `python -m tools.breadth`.

What of PyTorch, JAX and ONNX is here, with counts. PyTorch and ONNX are asked; JAX, which the tests
do not install, is asked by `python -m tools.breadth --jax`, which writes jax_names.json.
"""

from __future__ import annotations

import json
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import onnx.defs
import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

import gradwalk as gw
from gradwalk.onnx.tables import OPERATORS
from gradwalk.onnx.writers.tables import WRITERS
from tests.ops import test_pytorch_samples as samples
from tools.coming_from_pytorch import NAMESPACES
from tools.pytorch_names import compare

PAGE = Path(__file__).parents[1] / "docs" / "pytorch" / "breadth.md"
JAX_NAMES = Path(__file__).with_name("jax_names.json")

# Where a name of JAX is looked up; the first is where it belongs.
JAX = {
    "jax": (gw, gw.func),
    "jax.numpy": (gw, gw.Tensor, gw.linalg, gw.special),
    "jax.numpy.linalg": (gw.linalg, gw),
    "jax.numpy.fft": (gw.fft,),
    "jax.nn": (gw.nn.functional, gw),
    "jax.nn.initializers": (gw.nn.init,),
    "jax.lax": (gw, gw.func, gw.special, gw.nn.functional),
    "jax.scipy.special": (gw.special, gw),
    "jax.random": (gw,),
}
# Names of JAX for what gradwalk has under PyTorch's name.
OTHERWISE = {
    "jax": """
        jit=compile jacobian=func.jacrev remat=utils.checkpoint.checkpoint device_put=Tensor.to
        device_get=Tensor.cpu device_count=cuda.device_count
        make_mesh=Mesh custom_gradient=autograd.Function
    """,
    "jax.numpy": """
        append=cat around=round array=tensor array_equal=equal array_split=tensor_split
        astype=Tensor.to bartlett=bartlett_window blackman=blackman_window
        broadcast_arrays=broadcast_tensors copy=clone cumulative_prod=cumprod
        cumulative_sum=cumsum degrees=rad2deg digitize=bucketize expand_dims=unsqueeze fabs=abs
        hamming=hamming_window hanning=hann_window
        identity=eye invert=bitwise_not bitwise_invert=bitwise_not kaiser=kaiser_window
        conjugate=conj matrix_transpose=Tensor.mT mod=remainder
        percentile=quantile permute_dims=permute place=Tensor.masked_scatter_ power=pow
        put_along_axis=scatter radians=deg2rad rint=round take_along_axis=take_along_dim
        tril_indices_from=tril_indices triu_indices_from=triu_indices unstack=unbind
        unique_values=unique unique_counts=unique unique_inverse=unique vecdot=linalg.vecdot
        matvec=mv vectorize=vmap apply_along_axis=vmap left_shift=bitwise_left_shift
        right_shift=bitwise_right_shift i0=special.i0 flatnonzero=nonzero
        result_type=promote_types nanpercentile=nanquantile iscomplexobj=is_complex
        compress=masked_select extract=masked_select
    """,
    "jax.numpy.linalg": "matrix_transpose=Tensor.mT",
    "jax.nn": """
        dot_product_attention=nn.functional.scaled_dot_product_attention
        hard_sigmoid=nn.functional.hardsigmoid hard_silu=nn.functional.hardswish
        hard_swish=nn.functional.hardswish hard_tanh=nn.functional.hardtanh
        identity=nn.Identity log_sigmoid=nn.functional.logsigmoid soft_sign=nn.functional.softsign
        standardize=nn.functional.layer_norm swish=nn.functional.silu
    """,
    "jax.nn.initializers": """
        constant=nn.init.constant_ glorot_normal=nn.init.xavier_normal_
        glorot_uniform=nn.init.xavier_uniform_
        he_normal=nn.init.kaiming_normal_ he_uniform=nn.init.kaiming_uniform_
        kaiming_normal=nn.init.kaiming_normal_ kaiming_uniform=nn.init.kaiming_uniform_
        normal=nn.init.normal_ ones=nn.init.ones_ orthogonal=nn.init.orthogonal_
        truncated_normal=nn.init.trunc_normal_ uniform=nn.init.uniform_
        xavier_normal=nn.init.xavier_normal_ xavier_uniform=nn.init.xavier_uniform_
        zeros=nn.init.zeros_
    """,
    "jax.lax": """
        batch_matmul=bmm bessel_i0e=special.i0e
        bessel_i1e=special.i1e broadcast=broadcast_to broadcast_in_dim=broadcast_to
        bitcast_convert_type=Tensor.view collapse=flatten conv=nn.functional.conv2d
        conv_general_dilated=nn.functional.conv2d conv_with_general_padding=nn.functional.conv2d
        conv_transpose=nn.functional.conv_transpose2d
        conv_general_dilated_patches=nn.functional.unfold convert_element_type=Tensor.to
        cumlogsumexp=logcumsumexp dot_general=tensordot dynamic_slice=narrow
        dynamic_slice_in_dim=narrow dynamic_index_in_dim=select
        dynamic_update_slice=slice_scatter dynamic_update_slice_in_dim=slice_scatter
        dynamic_update_index_in_dim=select_scatter erf_inv=erfinv expand_dims=unsqueeze
        igamma=special.gammainc igammac=special.gammaincc index_in_dim=select index_take=take
        integer_pow=pow iota=arange is_finite=isfinite logistic=sigmoid map=vmap
        reduce_and=all reduce_max=amax reduce_min=amin reduce_or=any reduce_prod=prod
        reduce_sum=sum reduce_window=nn.functional.max_pool2d rem=fmod rev=flip
        rng_uniform=rand scatter_max=scatter_reduce scatter_min=scatter_reduce
        scatter_mul=scatter_reduce select_n=where shift_left=bitwise_left_shift
        shift_right_arithmetic=bitwise_right_shift slice=narrow slice_in_dim=narrow
        sort_key_val=sort stop_gradient=Tensor.detach top_k=topk unstack=unbind
    """,
    "jax.scipy.special": """
        loggamma=lgamma gammainc=special.gammainc gammaincc=special.gammaincc
        kl_div=nn.functional.kl_div multigammaln=special.multigammaln
    """,
    "jax.random": """
        PRNGKey=Generator key=Generator beta=distributions.Beta binomial=distributions.Binomial
        categorical=multinomial cauchy=distributions.Cauchy chisquare=distributions.Chi2
        choice=multinomial dirichlet=distributions.Dirichlet exponential=distributions.Exponential
        gamma=distributions.Gamma geometric=distributions.Geometric gumbel=distributions.Gumbel
        key_data=get_rng_state laplace=distributions.Laplace lognormal=distributions.LogNormal
        multivariate_normal=distributions.MultivariateNormal orthogonal=nn.init.orthogonal_
        permutation=randperm poisson=distributions.Poisson t=distributions.StudentT
        truncated_normal=nn.init.trunc_normal_ uniform=rand wrap_key_data=set_rng_state
    """,
}

# Functions of PyTorch's op database that are not compared, by the reason.
NOT_COMPARED = {
    "of CUDA alone": """
        jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary
        jiterator_binary_return_by_ref jiterator_unary
        torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
    """,
    "floats of 8 bits": "torch._scaled_mm torch._scaled_mm_v2",
    "complex numbers of two halves, which NumPy does not have": "chalf",
    "products of sparse matrices that reduce otherwise, or at some places": """
        sparse.mm sparse.sampled_addmm
    """,
    "a checksum of bits": "hash_tensor",
    "internal steps of PyTorch, which programs do not call": """
        _batch_norm_with_update _chunk_cat _softmax_backward_data _unsafe_masked_index
        _unsafe_masked_index_put_accumulate native_dropout_backward
        torch.ops.aten._safe_softmax.default
    """,
}

TEXT = """\
# What is here of PyTorch, JAX and ONNX

*`python -m tools.breadth` generates this page; a test fails when it is out of date.*

## PyTorch {torch}

| what | here | of |
|---|---:|---:|
| public names, [in {spaces} namespaces](coming-from-pytorch.md) | {names} | {all_names} |
| functions of the op database, compared on PyTorch's own samples | {ops} | {all_ops} |
| modules of the module database | {modules} | {all_modules} |
| optimizers of the optimizer database | {optimizers} | {all_optimizers} |

{missing_ops}

{missing_optimizers}

Twenty programs in PyTorch's idiom (`examples/from_pytorch/`) run in the tests under both libraries
and print the same. [Where gradwalk differs](differences.md) lists what behaves differently under
the same name.

## JAX {jax}

gradwalk has PyTorch's names. What JAX calls otherwise is counted as here if gradwalk has it: `jit`
is `compile`, `lax.rev` is `flip`. Classes and settings are not counted.

| JAX | under the same name | under another | of |
|---|---:|---:|---:|
{jax_rows}

{jax_missing}

## ONNX {onnx}

| what | here | of |
|---|---:|---:|
| operators of the default domain that `onnx.load` reads | {read} | {all_read} |
| of them, by ONNX's own definition | {defined} | |
| training operators of the preview domain | {training} | {all_training} |
| gradwalk's ops that `onnx.save` writes | {written} | |

{onnx_missing}
"""


def listed(title: str, names: list[str]) -> str:
    """Names in a paragraph."""
    return textwrap.fill(
        f"**{title}**: " + ", ".join(f"`{name}`" for name in names) + ".",
        98,
        break_on_hyphens=False,
        break_long_words=False,
    )


def found(name: str) -> bool:
    """Whether gradwalk has a dotted name."""
    place: Any = gw
    for part in name.split("."):
        if not hasattr(place, part):
            return False
        place = getattr(place, part)
    return True


def jax_rows() -> tuple[list[str], list[str]]:
    """The rows of the table, and the lists of what is not here."""
    rows, missing = [], []
    for title, places in JAX.items():
        names = jax_names()[title].split()
        same = {name for name in names if any(hasattr(place, name) for place in places)}
        pairs = dict(pair.split("=") for pair in OTHERWISE.get(title, "").split())
        other = {name for name in names if name not in same and found(pairs.get(name, "-"))}
        rows.append(f"| `{title}` | {len(same)} | {len(other)} | {len(names)} |")
        left = [name for name in names if name not in same | other]
        if left:
            missing.append(listed(f"Not here of {title}", left))
    return rows, missing


@cache
def jax_names() -> dict[str, str]:
    """JAX's functions by namespace, as written by `--jax`."""
    names: dict[str, str] = json.loads(JAX_NAMES.read_text("utf-8"))
    return names


def not_compared(names: set[str]) -> str:
    """A list of functions, by the reason; an error if one has no reason."""
    groups = {why: sorted(listed.split()) for why, listed in NOT_COMPARED.items()}
    explained = {name for group in groups.values() for name in group}
    if explained != names:
        raise ValueError(f"not compared, or compared after all: {sorted(explained ^ names)}")
    lines = ["**Not compared**:", ""]
    for why, group in groups.items():
        text = f"- {why}: {', '.join(f'`{name}`' for name in group)}"
        lines.append(textwrap.fill(text, 98, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    compared = [compare(place) for place in NAMESPACES]
    database = samples.database()
    optimizers = [info.optim_cls.__name__ for info in optim_db]
    refused = ["SparseAdam"]  # by name, with what to use instead
    schemas = onnx.defs.get_all_schemas()
    default = {s.name: s for s in schemas if s.domain == ""}
    training = {s.name for s in schemas if s.domain == "ai.onnx.preview.training"}
    own = {name for domain, name in OPERATORS if domain == ""}
    defined = {
        name
        for name, s in default.items()
        if name not in own and (s.has_function or s.has_context_dependent_function)
    }
    rows, missing = jax_rows()
    here = sum(len(c.here) for c in compared)
    return TEXT.format(
        torch=torch.__version__.partition("+")[0],
        spaces=len(NAMESPACES),
        names=here,
        all_names=here + sum(len(c.missing) for c in compared),
        ops=len([name for name in database if name in samples.NAMES]),
        all_ops=len(database),
        missing_ops=not_compared(set(database) - set(samples.NAMES)),
        modules=sum(hasattr(gw.nn, info.module_cls.__name__) for info in module_db),
        all_modules=len(module_db),
        optimizers=sum(hasattr(gw.optim, n) and n not in refused for n in optimizers),
        all_optimizers=len(optimizers),
        missing_optimizers=listed("Refused by name", refused),
        jax=jax_names()["version"],
        jax_rows="\n".join(rows),
        jax_missing="\n\n".join(missing),
        onnx=onnx.__version__,
        read=len((own & set(default)) | defined),
        all_read=len(default),
        defined=len(defined),
        training=sum(("ai.onnx.preview.training", name) in OPERATORS for name in training),
        all_training=len(training),
        written=len(WRITERS),
        onnx_missing=listed("Not read", sorted(set(default) - own - defined)),
    )


def ask_jax() -> None:
    """Write the names of the installed JAX."""
    import importlib

    import jax

    names = {"version": jax.__version__}
    for title in JAX:
        place = importlib.import_module(title)
        public = {name: getattr(place, name) for name in dir(place) if not name.startswith("_")}
        names[title] = " ".join(
            name
            for name, value in public.items()
            if callable(value) and not isinstance(value, type) and type(value).__name__ != "State"
        )
    JAX_NAMES.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--jax" in sys.argv:
        ask_jax()
    PAGE.write_text(page(), encoding="utf-8")
