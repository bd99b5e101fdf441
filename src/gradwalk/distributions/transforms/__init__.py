"""Functions of draws: transforms, and which of them lead to a constraint."""

from gradwalk.distributions.transforms.of_elements import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from gradwalk.distributions.transforms.of_matrices import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
)
from gradwalk.distributions.transforms.of_parts import (
    CatTransform,
    ReshapeTransform,
    StackTransform,
)
from gradwalk.distributions.transforms.of_vectors import (
    SoftmaxTransform,
    StickBreakingTransform,
)
from gradwalk.distributions.transforms.transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    identity_transform,
)
from gradwalk.distributions.transforms.transform import (
    _InverseTransform as _InverseTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
