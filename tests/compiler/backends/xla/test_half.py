"""Halves and autocast on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.xla.forwards import FORWARDS


class Attends(gw.nn.Module):
    """A small transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm = gw.nn.Embedding(11, 8), gw.nn.LayerNorm(8)
        self.mixed, self.head = gw.nn.Linear(8, 24), gw.nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens)
        q, k, v = self.mixed(self.norm(x)).chunk(3, -1)
        x = x + gw.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(gw.nn.functional.gelu(x))


def losses(device: str, compiled: bool, half: bool) -> list[float]:
    gw.manual_seed(0)
    model = Attends().to(device)
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)
    x = gw.randint(0, 11, (4, 6)).to(device)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with gw.autocast(device, dtype=gw.bfloat16, enabled=half):
            out = model(x)
            loss = gw.nn.functional.cross_entropy(out.reshape(-1, 11), x.reshape(-1))
        loss.backward()
        optimizer.step()
        assert out.dtype == (gw.bfloat16 if half else gw.float32)
        assert loss.dtype == gw.float32
        return loss

    run = gw.compile(step) if compiled else step
    found = [run(x).item() for _ in range(4)]
    assert model.mixed.weight.grad.dtype == gw.float32
    return found


def test_a_training_step_inside_autocast() -> None:
    exact = losses("cpu", False, False)
    for compiled in (False, True):
        half = losses("xla", compiled, True)
        np.testing.assert_allclose(half, exact, 1e-2)
        assert half != exact


def scaled(device: str, compiled: bool) -> tuple[list[Any], Any]:
    """The scale, the steps made and the weights of a model, step by step, some of them skipped."""
    gw.manual_seed(0)
    model = gw.nn.Linear(3, 2).to(device)
    optimizer = gw.optim.Adam(model.parameters(), lr=0.1)
    scaler = gw.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    x = gw.randn(4, 3).to(device)

    def step(x: Any, slope: Any) -> Any:
        optimizer.zero_grad()
        with gw.autocast(device, dtype=gw.float16):
            loss = (model(x) * slope).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    run = gw.compile(step) if compiled else step
    found = []
    for slope in (float("inf"), 1.0, 1.0, float("nan"), 1.0):
        run(x, gw.tensor(slope, device=device))
        count = [state["step"] for state in optimizer.state_dict()["state"].values()]
        found.append((scaler.state_dict(), max(count, default=0)))
    assert not compiled or len(run.specializations) == 1
    return found, model.weight.detach().cpu().numpy()


def test_a_scaler_inside_a_compiled_step() -> None:
    eager, compiled = scaled("cpu", False), scaled("xla", True)
    assert compiled[0] == eager[0]
    np.testing.assert_allclose(compiled[1], eager[1], 1e-3)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_files_keep_halves(name: str, tmp_path: Path) -> None:
    dtype = getattr(gw, name)
    model = gw.nn.Linear(3, 2).to(dtype).to("xla")
    optimizer = gw.optim.Adam(model.parameters())
    with gw.record() as trace:
        loss = model(gw.ones(4, 3, dtype=dtype, device="xla")).sum()
        loss.backward()
    optimizer.step()
    gw.save(model.state_dict(), tmp_path / "weights.safetensors")
    gw.save_run(tmp_path / "run", model=model, optimizer=optimizer)
    gw.save_trace(trace, tmp_path / "trace")
    again = gw.nn.Linear(3, 2).to(dtype).to("xla")
    other = gw.optim.Adam(again.parameters())
    gw.load_run(tmp_path / "run", model=again, optimizer=other)
    loaded = gw.load(tmp_path / "weights.safetensors")
    for key, tensor in model.state_dict().items():
        for found in (loaded[key], again.state_dict()[key].cpu()):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.numpy(), tensor.cpu().numpy())
    for mine, theirs in zip(model.parameters(), again.parameters()):
        one, two = (o.state[p]["exp_avg"] for o, p in ((optimizer, mine), (other, theirs)))
        assert (two.dtype, two.device) == (dtype, one.device)
        np.testing.assert_array_equal(one.cpu().numpy(), two.cpu().numpy())
    for before, after in zip(trace.nodes, gw.load_trace(tmp_path / "trace").nodes, strict=True):
        one, two = np.asarray(before.value), np.asarray(after.value)
        assert one.dtype == two.dtype == dtype
        np.testing.assert_array_equal(one, two)


def test_products_are_of_halves_with_sums_in_float32() -> None:
    x = jnp.ones((4, 4), jnp.bfloat16)
    text = jax.jit(FORWARDS["matmul"]).lower(x, x).as_text()
    assert "(tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>" in text
    conv = FORWARDS["conv"]
    image = jnp.ones((1, 2, 4, 4), jnp.bfloat16)
    options = {"stride": (1, 1), "padding": ((0, 0),) * 2, "dilation": (1, 1), "groups": 1}
    text = jax.jit(lambda x: conv(x, x, **options)).lower(image).as_text()
    assert "(tensor<1x2x4x4xbf16>, tensor<1x2x4x4xbf16>) -> tensor<1x1x1x1xf32>" in text


def test_the_precision_of_float32_products() -> None:
    x = gw.tensor([[1 + 2**-12, 1.0]], device="xla")
    f = gw.compile(lambda x: x @ x.T)
    want = (1 + 2**-12) ** 2 + 1
    try:
        for precision, exact in {"highest": True, "medium": False, "high": True}.items():
            gw.set_float32_matmul_precision(precision)
            assert gw.get_float32_matmul_precision() == precision
            for found in (f(x), x @ x.T):
                assert (abs(found.item() - want) < 1e-6) is exact
    finally:
        gw.set_float32_matmul_precision("highest")
    assert len(f.specializations) == 3
    with pytest.raises(ValueError, match="highest"):
        gw.set_float32_matmul_precision("low")
