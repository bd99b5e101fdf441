"""A NaN that the forward pass swallows comes back in a gradient: find_nan names where it began."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradwalk as gw


class Attention(nn.Module):
    """Normed queries and keys, fused attention: a query with NaN gives finite numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(16, 16) for _ in range(3))
        self.q_norm, self.k_norm = nn.RMSNorm(8), nn.RMSNorm(8)

    def forward(self, x):
        q, k, v = (p(x).view(2, 5, 2, 8) for p in (self.q_proj, self.k_proj, self.v_proj))
        heads = [t.transpose(1, 2) for t in (self.q_norm(q), self.k_norm(k), v)]
        return F.scaled_dot_product_attention(*heads, is_causal=True)


def written(module, args, out):
    out = out.clone()
    out[0, 3, 2] = float("nan")
    return out


def computed(module, args, out):
    spot = torch.zeros_like(out)
    spot[1, 2, 5] = 2
    return out + out * torch.log(1 - spot)


@pytest.mark.parametrize("hook, op", [(written, "setitem write_view"), (computed, "log")])
@pytest.mark.parametrize("part", ["q_proj", "k_proj", "q_norm"])
def test_the_module_is_named_and_not_the_attention(part, hook, op):
    torch.manual_seed(0)
    model = Attention()
    x = torch.randn(2, 5, 16)
    where = hook
    if part == "q_norm":
        where = lambda m, a, out: hook(m, a, out.flatten(2)).view(out.shape)
    model.get_submodule(part).register_forward_hook(where)
    with gw.torch.record() as trace:
        model(x).square().mean().backward()
    found = gw.find_nan(trace)
    assert found.op in op.split() and found.layer == part, found  # versions of PyTorch differ
    assert found.line is not None and found.line.file.endswith("test_swallowed_nan.py")
    assert "q_proj.weight" in str(found.reached)


def test_a_bad_weight_is_named():
    model = Attention()
    with torch.no_grad():
        model.q_proj.weight[3, 3] = float("nan")
    with gw.torch.record() as trace:
        model(torch.randn(2, 5, 16)).square().mean().backward()
    found = gw.find_nan(trace)
    assert (found.kind, found.name) == ("weights", "q_proj.weight")


def test_a_row_that_an_index_leaves_out():
    norm = nn.LayerNorm(4)
    x = torch.rand(3, 4, requires_grad=True)
    signs = torch.tensor([[1.0], [1.0], [-2.0]])
    with gw.torch.record() as trace:
        logs = torch.log(x * torch.tensor([[0.0], [0.0], [1.0]]) + signs)
        norm(logs)[0].sum().backward()
    found = gw.find_nan(trace)
    assert found.op == "log" and found.masked_by is not None and "getitem" in str(found.masked_by)
