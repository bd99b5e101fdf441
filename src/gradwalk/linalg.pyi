# Written by `python -m tools.stubs`.
from gradwalk.ops.linear.decompositions import LinAlgError as LinAlgError
from gradwalk.ops.linear.ldl import ldl_factor as ldl_factor
from gradwalk.ops.linear.ldl import ldl_factor_ex as ldl_factor_ex
from gradwalk.ops.linear.ldl import ldl_solve as ldl_solve
from gradwalk.ops.linear.lu import lu as lu
from gradwalk.ops.linear.lu import lu_factor as lu_factor
from gradwalk.ops.linear.lu import lu_factor_ex as lu_factor_ex
from gradwalk.ops.linear.lu import lu_solve as lu_solve
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
from gradwalk.ops.linear.reflections import householder_product as householder_product
from gradwalk.ops.linear.solving import cholesky_ex as cholesky_ex
from gradwalk.ops.linear.solving import cond as cond
from gradwalk.ops.linear.solving import inv_ex as inv_ex
from gradwalk.ops.linear.solving import lstsq as lstsq
from gradwalk.ops.linear.solving import solve_ex as solve_ex
from gradwalk.ops.linear.solving import solve_triangular as solve_triangular
from gradwalk.ops.linear.solving import tensorinv as tensorinv
from gradwalk.ops.linear.solving import tensorsolve as tensorsolve
from gradwalk.ops.linear.spectra import eig as eig
from gradwalk.ops.linear.spectra import eigvals as eigvals
from gradwalk.ops.linear.spectra import matrix_exp as matrix_exp
from gradwalk.ops.linear.spectra import matrix_rank as matrix_rank
from gradwalk.ops.linear.spectra import vander as vander
from gradwalk.ops.reduce.norms import linalg_norm as norm
from gradwalk.ops.reduce.norms import matrix_norm as matrix_norm
from gradwalk.ops.reduce.norms import vector_norm as vector_norm

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
