"""Ten architectures of `transformers`, tiny, at their start and after 100 steps: no tool says
anything about them."""

import pytest
import torch

import gradwalk as gw
from gradwalk.inspect.mistakes.audit import audit

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LONG = SMALL | {"intermediate_size": 64, "max_position_embeddings": 32}
OLD = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
GROUPED = LONG | {"num_key_value_heads": 2}
# Configuration and its settings; what computes the loss is the model of the same name.
MODELS = {
    "GPT2LMHeadModel": ("GPT2Config", OLD),
    "LlamaForCausalLM": ("LlamaConfig", GROUPED),
    "MistralForCausalLM": ("MistralConfig", GROUPED),
    "Qwen2ForCausalLM": ("Qwen2Config", GROUPED),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", LONG),
    "OPTForCausalLM": ("OPTConfig", LONG | {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "BertForMaskedLM": ("BertConfig", LONG),
    "DistilBertForMaskedLM": (
        "DistilBertConfig",
        {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    "T5ForConditionalGeneration": (
        "T5Config",
        {"vocab_size": 64, "d_model": 32, "num_layers": 2, "num_heads": 4, "d_ff": 64, "d_kv": 8}
        | {"decoder_start_token_id": 0},
    ),
    "ViTForImageClassification": (
        "ViTConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": 4}
        | {"intermediate_size": 64, "image_size": 16, "patch_size": 4},
    ),
}
STEPS = 100


def made(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A tiny model and a batch for it."""
    configuration, settings = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, configuration)(**settings, attn_implementation="eager")
    model = getattr(transformers, name)(config).train()
    if name.startswith("ViT"):
        return model, {"pixel_values": torch.randn(8, 3, 16, 16), "labels": torch.arange(8) % 4}
    tokens = torch.randint(2, 64, (4, 12))
    return model, {"input_ids": tokens, "labels": tokens}


def said(model, batch, optimizer) -> list[str]:
    """What the tools say about one step."""
    optimizer.zero_grad()
    with gw.torch.record() as trace:
        model(**batch).loss.backward()
    told = [str(finding) for finding in gw.health(model, trace, optimizer).findings]
    told += [str(found)] if (found := gw.find_nan(trace)) else []
    told += [str(fault) for fault in audit(trace).faults]
    for parameter in (p for p in model.parameters() if p.requires_grad):
        answer = gw.why_no_grad(parameter, trace)
        told += [str(answer)] if answer else []
    return told


@pytest.mark.parametrize("name", MODELS)
def test_every_tool_is_silent_about_a_healthy_model(name: str) -> None:
    model, batch = made(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    told = said(model, batch, optimizer)
    with gw.torch.watch(model, optimizer):  # raises at the first harmful step
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
    assert told + said(model, batch, optimizer) == []
