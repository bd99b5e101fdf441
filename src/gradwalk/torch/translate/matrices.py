"""Matrix products and linear algebra."""

from __future__ import annotations

from gradwalk.torch.translate.table import AtenCall, Known, direct, entry

direct("mm", "matmul", "self mat2")
direct("bmm", "matmul", "self mat2")
direct("mv", "mv", "self vec")
direct("dot", "dot", "self tensor")
direct("vdot", "dot", "self other")
direct("outer", "outer", "self vec2")
direct("addmm", "addmm", "self mat1 mat2", beta="beta", alpha="alpha")
direct("addmv", "addmv", "self mat vec", beta="beta", alpha="alpha")
direct("addr", "addr", "self vec1 vec2", beta="beta", alpha="alpha")
direct("baddbmm", "baddbmm", "self batch1 batch2", beta="beta", alpha="alpha")
direct("addbmm", "addbmm", "self batch1 batch2", beta="beta", alpha="alpha")
direct("linalg_cross", "cross", "self other", dim="dim")
direct("trace", "trace", "self")


@entry("matmul")
def _matmul(c: AtenCall) -> Known:
    op = "matmul" if min(c.self.dim(), c.other.dim()) > 1 else "matmul_of_any"
    return Known(op, (c.self, c.other))


@entry("linear")
def _linear(c: AtenCall) -> Known | None:
    x, weight = c.input, c.weight
    if x.dim() < 2 or weight.dim() != 2:
        return None
    if c.bias is not None:
        return Known("linear", (x, weight, c.bias))
    rows, inside, out = "abcdefghijk"[: x.dim() - 1], "x", "y"
    return Known("einsum", (x, weight), {"equation": f"{rows}{inside},{out}{inside}->{rows}{out}"})


# -- decompositions --------------------------------------------------------------------------------
# Without eigh and svd: the signs of their vectors are arbitrary, so a replay may differ.


@entry("linalg_inv_ex")
def _inv(c: AtenCall) -> Known:
    return Known("inv", (c.A,))


@entry("linalg_cholesky_ex")
def _cholesky(c: AtenCall) -> Known | None:
    return None if c.upper else Known("cholesky", (c.self,))


@entry("_linalg_det")
def _det(c: AtenCall) -> Known:
    return Known("det", (c.A,))


@entry("_linalg_slogdet")
def _slogdet(c: AtenCall) -> Known:
    return Known("slogdet", (c.A,), {}, (0, 1))


@entry("linalg_qr")
def _qr(c: AtenCall) -> Known | None:
    wide = c.A.shape[-2] < c.A.shape[-1]
    return Known("qr", (c.A,), {}, (0, 1)) if c.mode == "reduced" and not wide else None


@entry("_linalg_solve_ex")
def _solve(c: AtenCall) -> Known | None:
    matrices = c.A.dim() == c.B.dim() and c.A.shape[:-2] == c.B.shape[:-2]
    return Known("solve", (c.A, c.B)) if c.left and matrices else None
