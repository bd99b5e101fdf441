"""Complex tensors: their functions against PyTorch's, dtypes, text, in-place changes, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.ops.complex_oracle import COMPLEX, REAL, as_pytorch, close

Z, X = COMPLEX, REAL
POSITIVE = abs(X)

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "abs": (lambda t, z: abs(z), Z),
    "angle": (lambda t, z: t.angle(z), Z),
    "angle of reals": (lambda t, x: t.angle(x) + x, X),
    "sgn": (lambda t, z: t.sgn(z), Z),
    "conj": (lambda t, z: z.conj() * z, Z),
    "parts": (lambda t, z: z.real * z.imag, Z),
    "view_as_real": (lambda t, z: t.view_as_real(z) ** 2, Z),
    "view_as_complex": (lambda t, x: t.view_as_complex(x.reshape(3, 2, 2)).exp(), X),
    "complex": (lambda t, x, y: t.complex(x, y) ** 3, X, X + 1),
    "polar": (lambda t, x, y: t.polar(x, y), POSITIVE, X + 1),
    "adjoint": (lambda t, z: z.mH @ t.adjoint(z.mH) + z.H @ z, Z),
    "real and complex": (lambda t, x, z: x * z + z / x - x, POSITIVE, Z),
    "a complex number": (lambda t, x: (x * 2j + 1).reciprocal(), X),
    "broadcast": (lambda t, z, x: z * x, Z, X[:1]),
    "powers": (lambda t, z: z**2.5 + z**3 + 2**z, Z),
    "two powers": (lambda t, z, y: z**y, Z, Z[::-1]),
    "functions": (lambda t, z: t.log(z) + t.sqrt(z) + t.sin(z) * t.tanh(z), Z),
    "products": (lambda t, z: t.einsum("ij,kj->ik", z, z.conj()) @ z, Z),
    "reductions": (lambda t, z: z.mean(0) + z.sum(0) + z.prod(0) + z.cumsum(0)[1], Z),
    "norms": (lambda t, z: z.norm() + t.linalg.vector_norm(z, 3) + z.var() + z.std(), Z),
    "indices": (lambda t, z: z[:, [0, 0, 1]].flip(0)[1:] + z[:2, :3], Z),
    "where": (lambda t, z: t.where(z.real > 0, z, 1j), Z),
    "solve": (lambda t, z: t.linalg.solve(z @ z.mH + 2 * t.eye(3), z), Z),
}


@batched("name", FUNCTIONS)
def test_as_pytorch(name: str) -> None:
    function, *arrays = FUNCTIONS[name]
    as_pytorch(function, *arrays)


def rotary(t: Any, x: Any, angles: Any) -> Any:
    """Rotary embeddings as Llama's first code has them: pairs are complex numbers that turn."""
    turns = t.polar(t.ones_like(angles), angles)  # (time, pairs)
    pairs = t.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return t.view_as_real(pairs * turns).flatten(-2)


def test_rotary_embeddings() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    as_pytorch(lambda t, x, a: rotary(t, x, a), x, X[:, :2])


def test_gradcheck() -> None:
    z = gw.from_numpy(Z[:2, :2].copy()).requires_grad_()
    assert gw.gradcheck(lambda z: z.conj() * z.exp(), z)
    assert gw.gradgradcheck(lambda z: gw.angle(z) * abs(z), z)


@pytest.mark.parametrize(
    "change",
    [
        lambda t, z: z.imag.mul_(3.0),
        lambda t, z: z.real[0].fill_(5.0),
        lambda t, z: t.view_as_real(z)[1].mul_(z.real.sum()),
        lambda t, z: z.mul_(2j).sgn_(),
        lambda t, z: z[1:].copy_(z[:2].real.clone()),
    ],
)
def test_changes_in_place(change: Callable[..., Any]) -> None:
    def changed(t: Any, z: Any) -> Any:
        copy = z.clone()
        change(t, copy)
        return copy * copy

    as_pytorch(changed, Z)


def test_a_change_of_pairs_through_complex_numbers() -> None:
    def changed(t: Any, x: Any) -> Any:
        copy = x.clone()
        t.view_as_complex(copy.view(3, 2, 2)).mul_(2j)
        return copy**2

    as_pytorch(changed, X)


KINDS = ["float32", "float64", "int64", "bool", "complex64", "complex128"]


@batched("first, second", [(a, b) for a in KINDS for b in KINDS])
def test_dtypes_promote_as_in_pytorch(first: str, second: str) -> None:
    for shapes in (((2,), (2,)), ((2,), ()), ((), (2,))):
        ours, theirs = (
            [library.ones(shape, dtype=getattr(library, kind)) for shape, kind in
             zip(shapes, (first, second))]
            for library in (gw, torch)
        )  # fmt: skip
        assert str((ours[0] * ours[1]).dtype) == str((theirs[0] * theirs[1]).dtype)[6:]
    number = (gw.ones(2, dtype=getattr(gw, first)) * 1j).dtype
    assert str(number) == str((torch.ones(2, dtype=getattr(torch, first)) * 1j).dtype)[6:]


TEXTS: list[Any] = [
    [1 + 2j], [1.5 - 2j, 3], [[1e-5 + 3j, 2], [0, 1j]], [complex("nan+1j"), complex("1-infj")],
    2 + 3j, (Z * 1e5).tolist(), np.resize(Z, (40, 30)).tolist(), [[-0.0 - 0.0j]], [1e10 + 1j],
]  # fmt: skip


@batched("data", TEXTS)
def test_text(data: Any) -> None:
    for kind in ("complex64", "complex128"):
        ours = repr(gw.tensor(data, dtype=getattr(gw, kind)))
        assert ours.replace("gradwalk.", "torch.") == repr(
            torch.tensor(data, dtype=getattr(torch, kind))
        )


def test_numbers_in_and_out() -> None:
    z = gw.tensor([1 + 2j, 3])
    assert z.dtype == gw.complex64 and z.is_complex() and not z.is_floating_point()
    assert z[0].item() == complex(z[0]) == 1 + 2j and z.tolist() == [1 + 2j, 3]
    assert z.numpy().dtype == np.complex64 and gw.from_numpy(Z).dtype == gw.complex128
    assert gw.tensor([1.0]).cfloat().dtype == gw.complex64
    assert z.bool().tolist() == [True, True] and z.conj().is_conj() is False
    assert z.real.data_ptr() == z.data_ptr()
    with pytest.warns(UserWarning, match="imaginary"):
        assert z.to(gw.float64).tolist() == [1, 3]


def test_random_numbers_are_pytorchs() -> None:
    gw.manual_seed(0, like="torch")
    torch.manual_seed(0)
    for name in ("rand", "randn"):
        close(
            getattr(gw, name)(4, 5, dtype=gw.complex64),
            getattr(torch, name)(4, 5, dtype=torch.complex64),
            1e-6,
        )


COMPLEX_LEAF = gw.tensor([1 + 1j, 2j], requires_grad=True)
REFUSALS: dict[str, Callable[[Any], Any]] = {
    "order": lambda z: z < z,
    "largest": lambda z: z.max(),
    "sorting": lambda z: z.sort(),
    "relu": gw.relu,
    "softmax": lambda z: gw.softmax(z, 0),
    "rounding": lambda z: z.floor(),
    "a loss": lambda z: gw.nn.functional.mse_loss(z, z),
    "abs in place": lambda z: z.detach().abs_(),
    "real memory": lambda z: gw.ones(2).copy_(z.detach()),
    "real element": lambda z: gw.ones(2).__setitem__(0, 1j),
    "real sum": lambda z: gw.ones(2).add_(z.detach()),
    "half precision": lambda z: gw.ones(2, dtype=gw.float16) * 1j,
    "default dtype": lambda z: gw.set_default_dtype(gw.complex64),
    "float": lambda z: float(z[0]),
    "imaginary part of reals": lambda z: gw.ones(2).imag,
    "pairs of reals": lambda z: gw.view_as_real(gw.ones(2)),
    "wrong pairs": lambda z: gw.view_as_complex(gw.ones(3)),
    "a Jacobian": lambda z: gw.jacrev(lambda z: z * z)(z),
}


@batched("name", REFUSALS)
def test_refusals(name: str) -> None:
    with pytest.raises(TypeError):
        REFUSALS[name](COMPLEX_LEAF)


def test_compiled_functions_and_recordings_refuse_by_name() -> None:
    z = COMPLEX_LEAF.detach()
    with pytest.raises(NotImplementedError, match="mul of complex numbers"):
        gw.compile(lambda z: z * 2)(z)
    with pytest.raises(NotImplementedError, match="complex"):
        gw.show(abs(COMPLEX_LEAF).sum())
    with gw.record(), pytest.raises(NotImplementedError, match="mul of complex numbers"):
        z * 2


# By the op that a refusal names: functions of real numbers that compute with complex ones.
INSIDE: dict[str, Any] = {
    "view_as_complex makes": lambda x: gw.view_as_complex(x).real,
    "fourier_of_real makes": lambda x: gw.fft.rfft(x).abs(),
    "compose makes": lambda x: gw.polar(x, x).real,
    "cast makes": lambda x: x.to(gw.complex64).real,
    "mul makes": lambda x: (x * 1j).imag,
    "eig makes": lambda x: gw.linalg.eigvals(x @ x.T).real,
}


@pytest.mark.parametrize("refused", INSIDE)
def test_the_op_that_makes_complex_numbers_is_refused_with_its_line(refused: str) -> None:
    x, function = gw.ones(3, 2), INSIDE[refused]
    pattern = rf"(?s)^{refused} complex numbers: .*at:   test_complex_numbers.py:\d+.*Fix: "
    for call in (gw.compile(function), gw.compile(gw.grad(lambda x: function(x).sum()))):
        with pytest.raises(NotImplementedError, match=pattern):
            call(x)
    with gw.record(), pytest.raises(NotImplementedError, match=pattern):
        function(x)


def test_a_compiled_draw_of_complex_numbers_is_refused() -> None:
    for draw in (gw.rand, gw.randn):
        compiled = gw.compile(lambda x, draw=draw: draw(2, dtype=gw.complex64).abs() + x)
        with pytest.raises(NotImplementedError, match="a draw of complex numbers"):
            compiled(gw.ones(2))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "LBFGS"])
def test_optimizers(name: str) -> None:
    found = []
    for t in (gw, torch):
        z = t.from_numpy(Z.astype(np.complex64)).requires_grad_()
        options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        optimizer = getattr(t.optim, name)([z], lr=0.1, **options)

        def loss(z: Any = z, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            value = (abs(z * z - 1) ** 2).sum() + z.real.sum()
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(loss)
        if t is gw:
            optimizer.load_state_dict(optimizer.state_dict())
        found.append(z)
    close(*found, 1e-3)


def test_files_hold_pairs(tmp_path: Any) -> None:
    gw.save({"z": gw.view_as_real(COMPLEX_LEAF.detach())}, tmp_path / "z")
    assert gw.view_as_complex(gw.load(tmp_path / "z")["z"]).tolist() == [1 + 1j, 2j]
