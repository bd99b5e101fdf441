"""import_graph on mixtures of experts, and its errors on graphs that depend on the data."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradwalk as gw

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"num_key_value_heads": 1, "intermediate_size": 16, "max_position_embeddings": 16}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "use_cache": False}


def test_a_mixture_of_experts_is_imported() -> None:
    torch.manual_seed(0)
    config = transformers.MixtralConfig(**SMALL, **EXPERTS)
    model = transformers.MixtralForCausalLM(config).eval()
    net = gw.torch.import_graph(model, input_ids=torch.arange(6)[None])
    ops = {step.op.name for step in net._steps if step.op is not None}
    assert {"grouped_matmul", "histc", "topk", "sort", "cumsum_in_dtype"} <= ops
    assert "model.layers.0.mlp.experts.gate_up_proj" in dict(net.named_parameters())


def test_the_order_of_an_unsorted_result_does_not_matter() -> None:
    def best(x: torch.Tensor) -> torch.Tensor:
        values, places = torch.topk(x, 3, sorted=False)
        return (values * torch.gather(x, 1, places)).sum(1)

    def grouped(x: torch.Tensor) -> torch.Tensor:
        order = torch.sort((x > 0).long(), dim=1)[1]  # many equal elements
        return torch.gather(x, 1, order).sum(1)

    torch.manual_seed(0)
    x = torch.randn(4, 40)
    for function in (best, grouped):
        net = gw.torch.import_graph(function, x)
        assert net(gw.tensor(x.numpy())).shape == (4,)


class Chooses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = (x > 0).sum(0)
        sizes = counts.tolist()
        return F.pad(x, (0, sizes[0]))


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x


class Keeps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].exp()


@pytest.mark.parametrize(
    "module, line",
    [
        (Chooses, "sizes = counts.tolist()"),
        (Branches, "if x.sum() > 0:"),
        (Keeps, "return x[x > 0].exp()"),
    ],
)
def test_a_graph_that_depends_on_the_data_is_refused_with_its_line(module, line, capfd) -> None:
    with pytest.raises(ValueError, match="cannot make a graph of") as caught:
        gw.torch.import_graph(module(), torch.ones(3, 4))
    said = str(caught.value)
    assert line in said and "test_routing.py" in said and "Fix: " in said
    error = caught.value
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    assert len(said.splitlines()) <= 3
    assert capfd.readouterr().err == ""


def test_a_parameter_changed_in_place_is_called_one() -> None:
    class Rescales(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.scale.div_(2)
            return x * self.scale

    # PyTorch 2.8 refuses the write itself, and the error names its line.
    said = r"changes its parameter 'scale' in place|in-place operation\.\n  at test_routing"
    with pytest.raises(ValueError, match=said):
        gw.torch.import_graph(Rescales(), torch.ones(2, 3))
