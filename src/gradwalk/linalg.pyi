# Written by `python -m tools.stubs`.
from gradwalk.ops.linear.decompositions import LinAlgError as LinAlgError
from gradwalk.ops.linear.matmul import matmul as matmul
from gradwalk.ops.linear.matrices import cholesky as cholesky
from gradwalk.ops.linear.matrices import cross_product as cross
from gradwalk.ops.linear.matrices import det as det
from gradwalk.ops.linear.matrices import eigh as eigh
from gradwalk.ops.linear.matrices import eigvalsh as eigvalsh
from gradwalk.ops.linear.matrices import inv as inv
from gradwalk.ops.linear.matrices import matrix_diagonal as diagonal
from gradwalk.ops.linear.matrices import matrix_power as matrix_power
from gradwalk.ops.linear.matrices import multi_dot as multi_dot
from gradwalk.ops.linear.matrices import pinv as pinv
from gradwalk.ops.linear.matrices import qr as qr
from gradwalk.ops.linear.matrices import slogdet as slogdet
from gradwalk.ops.linear.matrices import solve as solve
from gradwalk.ops.linear.matrices import svd as svd
from gradwalk.ops.linear.matrices import svdvals as svdvals
from gradwalk.ops.linear.matrices import vecdot as vecdot
from gradwalk.ops.reduce.norms import linalg_norm as norm
from gradwalk.ops.reduce.norms import matrix_norm as matrix_norm
from gradwalk.ops.reduce.norms import vector_norm as vector_norm

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]
