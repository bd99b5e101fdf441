"""The page for people who come from PyTorch is up to date, and what was promised is on it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import gradwalk
from tests.batches import batched
from tools import coming_from_pytorch

PAGE = coming_from_pytorch.PAGE
ROOT = Path(__file__).parents[2]
UPDATE = "python -m tools.coming_from_pytorch"

# The names that the issue about networks lists, by PyTorch's namespace.
PROMISED = {
    "torch": """
        reciprocal exp2 log2 log10 trunc ceil frac sinc asinh acosh atanh atan2 hypot erfc erfinv
        lgamma digamma logaddexp logaddexp2 xlogy lerp addcmul addcdiv fmod remainder floor_divide
        copysign deg2rad rad2deg logit nan_to_num isnan isinf isfinite float_power heaviside sgn
        true_divide clamp
        sum mean std var prod amax amin max min median argmax argmin all any norm logsumexp cumsum
        cumprod cummax logcumsumexp nansum nanmean count_nonzero sort topk kthvalue argsort unique
        searchsorted
        reshape flatten unflatten ravel movedim swapaxes permute broadcast_to tile repeat_interleave
        squeeze unsqueeze cat stack hstack vstack split chunk unbind narrow select index_select
        gather scatter scatter_add index_add index_put masked_fill masked_select where take
        take_along_dim roll rot90 flip diag diagonal diag_embed tril triu meshgrid bucketize
        matmul mm bmm mv dot inner outer addmm baddbmm einsum kron tensordot cdist trace
        rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like
    """,
    "torch.Tensor": """
        view reshape flatten unflatten ravel movedim swapaxes permute T mT expand expand_as
        broadcast_to repeat tile repeat_interleave squeeze unsqueeze split chunk unbind narrow
        select index_select gather scatter scatter_add index_add index_put masked_fill masked_select
        where take take_along_dim roll rot90 flip diag diagonal diag_embed tril triu unfold
    """,
    "torch.fft": """
        fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn
        fftfreq rfftfreq fftshift ifftshift
    """,
    "torch.linalg": "norm inv solve det slogdet cholesky qr eigh svd pinv matrix_power",
    "torch.nn.functional": """
        relu relu6 leaky_relu elu selu celu gelu silu mish hardtanh hardsigmoid hardswish softplus
        softsign softshrink hardshrink tanhshrink threshold glu logsigmoid softmax log_softmax
        softmin gumbel_softmax normalize linear bilinear embedding one_hot pad
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_max_pool1d adaptive_max_pool2d interpolate
        layer_norm batch_norm group_norm instance_norm rms_norm local_response_norm
        dropout dropout2d scaled_dot_product_attention
        cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
        binary_cross_entropy_with_logits kl_div margin_ranking_loss hinge_embedding_loss
        cosine_embedding_loss triplet_margin_loss poisson_nll_loss gaussian_nll_loss
        cosine_similarity pairwise_distance
    """,
    "torch.nn.Module": """
        parameters buffers named_parameters named_buffers named_modules named_children children
        apply train eval to requires_grad_ zero_grad state_dict load_state_dict
        register_forward_hook register_forward_pre_hook register_full_backward_hook extra_repr
    """,
    "torch.nn": """
        Module Sequential ModuleList ModuleDict ParameterList
        ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Hardtanh Hardsigmoid Hardswish Softplus
        Softsign Softshrink Hardshrink Tanhshrink Threshold GLU LogSigmoid Softmax LogSoftmax
        Softmin Linear Bilinear Embedding Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
        MaxPool1d MaxPool2d AvgPool1d AvgPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d
        AdaptiveMaxPool1d AdaptiveMaxPool2d LayerNorm BatchNorm1d BatchNorm2d GroupNorm
        InstanceNorm1d InstanceNorm2d RMSNorm LocalResponseNorm Dropout Dropout2d
        CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss
        KLDivLoss MarginRankingLoss HingeEmbeddingLoss CosineEmbeddingLoss TripletMarginLoss
        PoissonNLLLoss GaussianNLLLoss CosineSimilarity PairwiseDistance
        RNN LSTM GRU MultiheadAttention TransformerEncoderLayer TransformerEncoder
        TransformerDecoderLayer Flatten Identity Upsample
    """,
    "torch.nn.init": """
        calculate_gain uniform_ normal_ trunc_normal_ constant_ ones_ zeros_ eye_ dirac_
        xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ sparse_
    """,
    "torch.nn.utils": "clip_grad_norm_ clip_grad_value_",
    "torch.optim": "SGD Adam AdamW NAdam RAdam Adagrad Adadelta RMSprop LBFGS",
    "torch.optim.Optimizer": "add_param_group state_dict load_state_dict step zero_grad",
    "torch.optim.lr_scheduler": """
        StepLR MultiStepLR ExponentialLR CosineAnnealingLR CosineAnnealingWarmRestarts OneCycleLR
        LinearLR LambdaLR SequentialLR ReduceLROnPlateau
    """,
    "torch.utils.data": "Dataset TensorDataset Subset random_split DataLoader",
}
# What PyTorch has not, and so no page about PyTorch's names.
PROMISED_BESIDE = {
    "gradwalk.data": "moons circles spirals digits characters",
}
CASES = [(space, name) for space, names in PROMISED.items() for name in names.split()]


def test_the_page_is_up_to_date() -> None:
    """In a process of its own: in this one, transformers may have given torch.nn.Module more."""
    program = "from tools.coming_from_pytorch import page; print(page(), end='')"
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout
    assert PAGE.read_text(encoding="utf-8") == made, (
        f"{PAGE.name} is not what is made of the code now. Run `{UPDATE}` and commit the page with "
        "your change."
    )


@cache
def on_the_page() -> dict[str, set[str]]:
    """The names the page lists as here, by PyTorch's namespace."""
    found: dict[str, set[str]] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n### ")[1:]:
        title, _, text = section.partition("\n")
        found[title] = set()
        for paragraph in text.split("\n\n"):
            if paragraph.strip().startswith("**Here"):
                found[title] |= set(re.findall(r"`(\w+)`", paragraph))
    return found


def place(name: str) -> Any:
    """What a dotted name means."""
    found: Any = gradwalk
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@batched("space, name", CASES, key=lambda case: case[0])
def test_what_was_promised_is_here(space: str, name: str) -> None:
    (here,) = [p.here for p in coming_from_pytorch.NAMESPACES if p.title == space]
    assert hasattr(place(here), name)
    assert name in on_the_page()[space], f"run `{UPDATE}`"


def test_what_was_promised_beside_pytorchs_names_is_here() -> None:
    for space, names in PROMISED_BESIDE.items():
        for name in names.split():
            assert hasattr(place(space), name)


def test_nothing_is_listed_as_here_that_is_not() -> None:
    for listed in coming_from_pytorch.NAMESPACES:
        for name in on_the_page()[listed.title]:
            assert hasattr(place(listed.here), name)


def test_no_namespace_is_a_module_of_another_name() -> None:
    for listed in coming_from_pytorch.NAMESPACES:
        if isinstance(listed.ours, ModuleType):
            assert listed.ours.__name__ == listed.here
