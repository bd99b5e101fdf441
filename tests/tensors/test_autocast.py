"""autocast gives results the dtypes that PyTorch's gives, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

# f is float32, h bfloat16, d float64, i int64
EXPRESSIONS = """
f @ f
f @ h
f @ f[0]
d @ d
f + h
f * 2
h + h
h.exp()
h.log()
h ** 2
h.softmax(0)
h.log_softmax(0)
h.sum()
h.mean()
h.prod()
h.cumsum(0)
h.norm()
torch.cat([f, h])
torch.stack([f, h])
torch.einsum("ij,jk->ik", f, f)
torch.addmm(f, f, f)
torch.bmm(f[None], f[None])
torch.baddbmm(f[None], f[None], f[None])
torch.linalg.inv(h + 5 * torch.eye(4))
torch.where(f > 0, f, h)
nn.functional.linear(f, f)
nn.functional.linear(f, f, f[0])
nn.functional.conv2d(f[None, None], f[None, None])
nn.functional.conv1d(f[None], f[:, :, None], f[0])
nn.functional.scaled_dot_product_attention(f[None], f[None], f[None])
nn.functional.gelu(h)
nn.functional.layer_norm(h, (4,))
nn.functional.layer_norm(f, (4,))
nn.functional.cross_entropy(h, i)
nn.functional.cross_entropy(f, i)
nn.functional.nll_loss(h, i)
nn.functional.mse_loss(h, h)
nn.functional.l1_loss(h, h)
nn.functional.smooth_l1_loss(h, h)
nn.functional.huber_loss(h, h)
nn.functional.kl_div(h, h, reduction="batchmean")
nn.functional.binary_cross_entropy_with_logits(h, h)
nn.functional.embedding(i, f)
nn.functional.relu(f @ f)
nn.Linear(4, 2)(f)
nn.MultiheadAttention(4, 2)(f, f, f)[0]
""".strip().splitlines()


def operands(library: Any, like: Any) -> dict[str, Any]:
    f = like(np.arange(1, 17, dtype=np.float32).reshape(4, 4) / 16)
    h = f.to(library.bfloat16)
    i = like(np.array([0, 1, 2, 3]))
    return {"torch": library, "nn": library.nn, "f": f, "h": h, "d": f.double(), "i": i}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_dtypes_are_pytorchs(expression: str) -> None:
    ours, theirs = operands(gw, gw.tensor), operands(torch, torch.tensor)
    with gw.autocast("cpu", dtype=gw.bfloat16), torch.autocast("cpu", dtype=torch.bfloat16):
        mine, expected = eval(expression, ours), eval(expression, theirs)
    assert f"torch.{mine.dtype}" == str(expected.dtype)


def recurrent(
    library: Any, kind: str, half: str | None, given: str, state: str | None
) -> list[Any]:
    """The outputs of a recurrent layer inside autocast, or outside in float64, and the gradient of
    its first weight."""
    source = np.random.default_rng(0)

    def draw(*shape: int, dtype: str = "float32") -> Any:
        drawn = library.tensor(source.uniform(-1, 1, shape).astype(np.float32))
        return drawn.to(getattr(library, dtype if half else "float64"))

    layer = getattr(library.nn, kind)(3, 5)
    layer.load_state_dict({name: draw(*p.shape) for name, p in layer.named_parameters()})
    x = draw(*((4, 3) if "Cell" in kind else (6, 4, 3)), dtype=given)
    shape = (4, 5) if "Cell" in kind else (1, 4, 5)
    states = tuple(draw(*shape, dtype=state or given) for _ in range(1 + ("LSTM" in kind)))
    arguments = (x, states if len(states) > 1 else states[0]) if state else (x,)
    if half is None:
        made = layer.to(library.float64)(*arguments)
    else:
        with library.autocast("cpu", dtype=getattr(library, half)):
            made = layer(*arguments)
    outputs = [made] if not isinstance(made, tuple) else [made[0], *made[1:]]
    outputs = [t for o in outputs for t in (o if isinstance(o, tuple) else (o,))]
    sum(t.double().sum() for t in outputs).backward()
    return [*(o.detach() for o in outputs), next(layer.parameters()).grad]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_recurrent_layers_are_pytorchs(kind: str) -> None:
    """In dtype; and no further from float64 than PyTorch, which rounds every gate."""
    for half in ("bfloat16", "float16"):
        native = half == "bfloat16" and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if kind == "LSTM" and not native:
            continue  # it depends on the processor whether PyTorch can, and in which dtype
        for given in ("float32", half):
            for state in (None, "float32", half):
                case = half, given, state
                exact = recurrent(torch, kind, None, given, state)
                theirs, ours = (recurrent(m, kind, *case) for m in (torch, gw))
                unit = 2.0**-8 if half == "bfloat16" else 2.0**-11
                for mine, other, true in zip(ours, theirs, exact, strict=True):
                    assert f"torch.{mine.dtype}" == str(other.dtype), case
                    apart = np.abs(mine.double().numpy() - true.numpy()).max()
                    allowed = np.abs(other.double().numpy() - true.numpy()).max()
                    assert apart <= allowed + unit * true.abs().max().item(), case


def test_gradients_have_the_dtype_of_the_parameters() -> None:
    model = gw.nn.Sequential(gw.nn.Linear(3, 4), gw.nn.ReLU(), gw.nn.Linear(4, 2))
    with gw.autocast("cpu", dtype=gw.bfloat16):
        loss = model(gw.ones(5, 3)).sum()
    loss.backward()
    assert {p.grad.dtype for p in model.parameters()} == {gw.float32}


def test_blocks_nest_and_end() -> None:
    x = gw.ones(2, 2)
    with gw.autocast("cpu", dtype=gw.bfloat16):
        assert gw.is_autocast_enabled("cpu") and not gw.is_autocast_enabled("cuda")
        with gw.autocast("cpu", enabled=False):
            assert (x @ x).dtype == gw.float32
            assert not gw.is_autocast_enabled("cpu")
        with gw.autocast("cpu", dtype=gw.float16):
            assert gw.get_autocast_dtype("cpu") == gw.float16
            assert (x @ x).dtype == gw.float16
        with gw.autocast("cuda", dtype=gw.float16):
            assert (x @ x).dtype == gw.bfloat16  # x is not on a GPU
        with pytest.raises(ZeroDivisionError), gw.autocast("cpu", enabled=False):
            raise ZeroDivisionError
        assert (x @ x).dtype == gw.bfloat16
    assert (x @ x).dtype == gw.float32

    @gw.amp.autocast("cpu", dtype=gw.bfloat16)
    def product(x: Any) -> Any:
        return x @ x

    assert product(x).dtype == gw.bfloat16
    assert (x @ x).dtype == gw.float32


def test_what_autocast_refuses() -> None:
    with pytest.raises(ValueError, match="bfloat16"):
        gw.autocast("cpu", dtype=gw.float32)
    with pytest.raises(ValueError, match="device"):
        gw.autocast("gpu")


def test_a_parameter_is_cast_once_in_a_block_unless_it_changes() -> None:
    w = gw.ones(2, 2, requires_grad=True)
    x = gw.ones(2, 2)
    with gw.autocast("cpu", dtype=gw.bfloat16):
        first, second = x @ w, x @ w
        casts = {y._node.inputs[1] for y in (first, second)}
        assert len(casts) == 1
        with gw.no_grad():
            w.mul_(3)
        assert (x @ w)[0, 0].item() == 6
    with gw.no_grad(), gw.autocast("cpu", dtype=gw.bfloat16):
        x @ w
        with gw.enable_grad():
            (x @ w).sum().backward()
    assert w.grad[0, 0].item() == 2


def test_a_checkpoint_recomputes_in_the_same_dtypes() -> None:
    w = gw.randn(3, 3, requires_grad=True)
    x = gw.randn(2, 3)
    with gw.autocast("cpu", dtype=gw.bfloat16):
        plain = (x @ w).exp().sum()
        kept = gw.checkpoint(lambda x: (x @ w).exp().sum(), x)
    plain.backward()
    expected, w.grad = w.grad, None
    kept.backward()
    np.testing.assert_array_equal(w.grad.numpy(), expected.numpy())


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_a_compiled_function_depends_on_the_block_it_is_called_in(backend: str) -> None:
    w = gw.randn(3, 3, requires_grad=True)
    f = gw.compile(lambda x: (x @ w).exp(), backend=backend)
    x = gw.randn(2, 3)
    for block in ({"dtype": gw.bfloat16}, {"enabled": False}, {"dtype": gw.float16}):
        for _ in range(3):
            with gw.autocast("cpu", **block):
                got, want = f(x), (x @ w).exp()
            assert got.dtype == want.dtype
            got, want = got.detach().float().numpy(), want.detach().float().numpy()
            np.testing.assert_allclose(got, want, 2**-7)
    assert len(f.specializations) == 3
    assert f.check() == 3


@pytest.mark.parametrize("cast_inputs", ["float32", None])
@pytest.mark.parametrize("inside", [False, True])
def test_a_function_of_its_own_has_the_dtypes_of_pytorch(inside: bool, cast_inputs: Any) -> None:
    seen: list[list[Any]] = []
    for m in (gw, torch):
        dtypes: list[Any] = []
        wanted = None if cast_inputs is None else getattr(m, cast_inputs)

        class Product(m.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            @m.amp.custom_fwd(device_type="cpu", cast_inputs=wanted)
            def forward(ctx: Any, x: Any, w: Any, pair: Any) -> Any:
                ctx.save_for_backward(x, w)
                dtypes.extend([x.dtype, (x @ w).dtype, pair])  # noqa: B023
                return x @ w

            @staticmethod
            @m.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any) -> Any:
                x, w = ctx.saved_tensors
                dtypes.append((x.float().T @ w.float()).dtype)  # noqa: B023
                return (g @ w.T).to(x.dtype), (x.T @ g).to(w.dtype), None

        x = m.ones(2, 2, requires_grad=True)
        with m.autocast("cpu", dtype=m.bfloat16, enabled=inside):
            out = Product.apply(x * 2 if cast_inputs is None else (x @ x), x, 3)
        out.sum().backward()
        seen.append([str(d).removeprefix("torch.") for d in [*dtypes, out.dtype]] + x.grad.tolist())
    assert seen[0] == seen[1]


EINSUMS = {
    "i,j->ij": ((3,), (4,)), "ij,ij->ij": ((3, 4), (3, 4)), "ij,j->ij": ((3, 4), (4,)),
    "ij,ij->i": ((3, 4), (3, 4)), "ij,k->k": ((3, 4), (2,)), "ij->i": ((3, 4),),
    "i,j,k->ijk": ((3,), (4,), (2,)), "a,b,ab->": ((2,), (3,), (2, 3)),
}  # fmt: skip
PRODUCTS: dict[str, tuple[tuple[int, ...], ...]] = {
    "dot": ((4,), (4,)), "vdot": ((4,), (4,)), "inner": ((4,), (4,)), "mv": ((3, 4), (4,)),
    "matmul": ((4,), (4,)), "addmv": ((3,), (3, 4), (4,)), "addr": ((3, 4), (3,), (4,)),
    "addmm": ((3, 5), (3, 4), (4, 5)), "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)), "bilinear": ((3, 4), (3, 4), (2, 4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*EINSUMS, *PRODUCTS])
def test_products_that_pytorch_chooses_a_dtype_for_as_a_whole(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = EINSUMS.get(name) or PRODUCTS[name]
    arrays = [rng.normal(size=shape).astype("float32") for shape in shapes]
    found = []
    for m in (gw, torch):
        given: Any = [m.tensor(array, requires_grad=True) for array in arrays]
        with m.autocast("cpu", dtype=m.bfloat16):
            out = m.einsum(name, *given) if name in EINSUMS else getattr(m, name)(*given)
        out.float().square().sum().backward()
        kind = str(out.dtype).removeprefix("torch.")
        found.append((kind, out.detach().float().numpy(), [t.grad.numpy() for t in given]))
    (kind, ours, gradients), (their_kind, theirs, expected) = found
    assert kind == their_kind
    exact = kind == "bfloat16" and name in ("addmm", "baddbmm")  # rounded once
    np.testing.assert_allclose(ours, theirs, rtol=0 if exact else 2e-2, atol=0 if exact else 2e-2)
    for mine, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=5e-2, atol=0.2)
