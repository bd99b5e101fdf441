"""Matrix products and linear algebra."""

from __future__ import annotations

from gradwalk.torch.translate.table import AtenCall, Known, direct, entry, same

direct("mm bmm", "matmul", "self mat2")
same("mv", "self vec")
same("dot", "self tensor")
direct("vdot", "dot", "self other")
same("outer", "self vec2")
same("addmm", "self mat1 mat2", attrs="beta alpha")
same("addmv", "self mat vec", attrs="beta alpha")
same("addr", "self vec1 vec2", attrs="beta alpha")
same("baddbmm addbmm", "self batch1 batch2", attrs="beta alpha")
direct("linalg_cross", "cross", "self other", dim="dim")
same("trace", "self")


def _rows_in_groups(c: AtenCall) -> bool:
    """Whether the rows of one matrix are divided among several: the experts of a mixture."""
    shapes = c.self.dim() == 2 and c.mat2.dim() == 3 and c.offs is not None
    return shapes and c.bias is None and c.values.get("out_dtype") in (None, c.self.dtype)


direct("_grouped_mm", "grouped_matmul", "self mat2 offs", when=_rows_in_groups)
direct("transformers::grouped_mm_fallback", "grouped_matmul", "input weight offs")
direct(
    "matmul", lambda c: "matmul" if min(c.self.dim(), c.other.dim()) > 1 else "matmul_of_any",
    "self other",
)  # fmt: skip


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

direct("linalg_inv_ex", "inv", "A")
direct("linalg_cholesky_ex", "cholesky", "self", when=lambda c: not c.upper)
direct("_linalg_det", "det", "A")
direct("_linalg_slogdet", "slogdet", "A", (0, 1))
direct(
    "linalg_qr", "qr", "A", (0, 1),
    when=lambda c: c.mode == "reduced" and c.A.shape[-2] >= c.A.shape[-1],
)  # fmt: skip
direct(
    "linalg_solve_triangular", "solve_triangular", "self B", upper="upper",
    left="left", unitriangular="unitriangular",
    when=lambda c: c.self.dim() == c.B.dim() and c.self.shape[:-2] == c.B.shape[:-2],
)  # fmt: skip
direct(
    "_linalg_solve_ex", "solve", "A B",
    when=lambda c: c.left and c.A.dim() == c.B.dim() and c.A.shape[:-2] == c.B.shape[:-2],
)  # fmt: skip
