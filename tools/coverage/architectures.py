"""Architectures at tiny size, with random weights and a batch for each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

TOKENS, LENGTH, CLASSES = 64, 8, 4


@dataclass
class Subject:
    """A model, its arguments, and the loss of what it returns."""

    model: torch.nn.Module
    batch: dict[str, Any]
    loss: Callable[[Any], torch.Tensor]


# Settings of a tiny model, under every name that configurations have for them. A configuration gets
# those that it knows.
TINY: dict[str, Any] = {
    "vocab_size": TOKENS, "type_vocab_size": 2, "max_position_embeddings": 32, "n_positions": 32,
    "hidden_size": 32, "n_embd": 32, "d_model": 32, "dim": 32, "embedding_size": 32,
    "attention_hidden_size": 32, "word_embed_proj_dim": 32, "lru_width": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "num_decoder_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "d_kv": 8, "v_head_dim": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "q_lora_rank": 8, "kv_lora_rank": 8, "rotary_dim": 4, "sliding_window": 8,
    "attention_window_size": 8, "state_size": 4,
    "intermediate_size": 64, "n_inner": 64, "d_ff": 64, "ffn_dim": 64, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "hidden_dim": 64, "ffn_hidden_size": 64,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    "image_size": 32, "patch_size": 8, "num_labels": CLASSES,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 0,
    "use_cache": False,
}  # fmt: skip
NOT = object()  # a setting of TINY that one configuration must not get

LATENT = {"head_dim": NOT, "num_key_value_heads": 4}  # the width of a head follows from its parts
START = {"decoder_start_token_id": 0}
LINEAR_AND_FULL = {"layer_types": ["linear_attention", "full_attention"]}
PYRAMID = {
    "depths": [1, 1],
    "embed_dim": 16,
    "num_heads": [2, 4],
    "window_size": 4,
    "patch_size": 4,
}
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "image_size": 64}
SOUND = {
    "conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2],
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    "apply_spec_augment": False,
}  # fmt: skip
CLIP = {
    "text_config": {"vocab_size": TOKENS, "hidden_size": 32, "intermediate_size": 64}
    | {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32}
    | {"eos_token_id": 63, "projection_dim": 16},
    "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "image_size": 32, "patch_size": 8, "projection_dim": 16},
    "projection_dim": 16,
}

# Model class -> the settings in which it differs from TINY.
TRANSFORMERS: dict[str, dict[str, Any]] = {
    # decoders
    "GPT2LMHeadModel": {}, "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]]},
    "GPTJForCausalLM": {}, "GPTNeoXForCausalLM": {}, "GPTBigCodeForCausalLM": {},
    "CodeGenForCausalLM": {}, "OPTForCausalLM": {}, "BloomForCausalLM": {}, "MptForCausalLM": {},
    "FalconForCausalLM": {"head_dim": NOT, "num_key_value_heads": NOT}, "BioGptForCausalLM": {},
    "LlamaForCausalLM": {}, "MistralForCausalLM": {}, "MinistralForCausalLM": {},
    "GemmaForCausalLM": {}, "Gemma2ForCausalLM": {}, "Gemma3ForCausalLM": {},
    "Qwen2ForCausalLM": {}, "Qwen3ForCausalLM": {}, "PhiForCausalLM": {}, "Phi3ForCausalLM": {},
    "OlmoForCausalLM": {}, "Olmo2ForCausalLM": {}, "Olmo3ForCausalLM": {},
    "Exaone4ForCausalLM": {}, "Ernie4_5ForCausalLM": {}, "CohereForCausalLM": {},
    "Cohere2ForCausalLM": {}, "GlmForCausalLM": {}, "Glm4ForCausalLM": {},
    "GraniteForCausalLM": {}, "HeliumForCausalLM": {}, "NemotronForCausalLM": {},
    "PersimmonForCausalLM": {}, "StableLmForCausalLM": {}, "Starcoder2ForCausalLM": {},
    "SmolLM3ForCausalLM": {}, "SeedOssForCausalLM": {}, "ApertusForCausalLM": {},
    "BitNetForCausalLM": {}, "DiffLlamaForCausalLM": {}, "DogeForCausalLM": {},
    "NanoChatForCausalLM": {}, "XGLMForCausalLM": {}, "ModernBertDecoderForCausalLM": {},
    # mixtures of experts
    "MixtralForCausalLM": {}, "Qwen2MoeForCausalLM": {}, "Qwen3MoeForCausalLM": {},
    "OlmoeForCausalLM": {}, "DeepseekV2ForCausalLM": LATENT, "DeepseekV3ForCausalLM": LATENT,
    "GptOssForCausalLM": {}, "JetMoeForCausalLM": {}, "GraniteMoeForCausalLM": {},
    "PhimoeForCausalLM": {}, "Ernie4_5_MoeForCausalLM": {}, "Glm4MoeForCausalLM": {},
    "Llama4ForCausalLM": {}, "MiniMaxForCausalLM": {}, "HunYuanMoEV1ForCausalLM": {},
    "NllbMoeForConditionalGeneration": {"expert_capacity": 8},
    "SwitchTransformersForConditionalGeneration": START | {"expert_capacity": 8},
    # recurrences and state spaces
    "RwkvForCausalLM": {"rescale_every": 0}, "RecurrentGemmaForCausalLM": {},
    "xLSTMForCausalLM": {"v_head_dim": NOT}, "MambaForCausalLM": {},
    "Mamba2ForCausalLM": {"num_heads": 8, "head_dim": 8, "n_groups": 2},
    "FalconMambaForCausalLM": {},
    "JambaForCausalLM": {"attn_layer_offset": 1, "attn_layer_period": 2, "mamba_d_state": 4}
    | {"use_mamba_kernels": False, "mamba_dt_rank": 4},
    "Qwen3NextForCausalLM": LINEAR_AND_FULL | {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    | {"linear_num_key_heads": 2, "linear_num_value_heads": 4},
    "Lfm2ForCausalLM": {"layer_types": ["conv", "full_attention"]},
    # encoders
    "BertForMaskedLM": {}, "RobertaForMaskedLM": {}, "AlbertForMaskedLM": {},
    "DistilBertForMaskedLM": {}, "ElectraForMaskedLM": {}, "DebertaForMaskedLM": {},
    "DebertaV2ForMaskedLM": {}, "ConvBertForMaskedLM": {}, "MPNetForMaskedLM": {},
    "ModernBertForMaskedLM": {}, "EsmForMaskedLM": {"mask_token_id": 2}, "FNetForMaskedLM": {},
    "NystromformerForMaskedLM": {}, "RoFormerForMaskedLM": {}, "SqueezeBertForMaskedLM": {},
    "MobileBertForMaskedLM": {}, "BigBirdForMaskedLM": {}, "LongformerForMaskedLM": {},
    "EuroBertForMaskedLM": {}, "XLMRobertaForMaskedLM": {},
    # encoders with decoders
    "T5ForConditionalGeneration": START, "MT5ForConditionalGeneration": {},
    "UMT5ForConditionalGeneration": {}, "LongT5ForConditionalGeneration": START,
    "BartForConditionalGeneration": {}, "MBartForConditionalGeneration": {}, "MarianMTModel": {},
    "PegasusForConditionalGeneration": {}, "BlenderbotForConditionalGeneration": {},
    "M2M100ForConditionalGeneration": {},
    # images and sound
    "ViTForImageClassification": {}, "DeiTForImageClassification": {},
    "BeitForImageClassification": {}, "Dinov2ForImageClassification": {},
    "SwinForImageClassification": PYRAMID, "Swinv2ForImageClassification": PYRAMID,
    "ConvNextForImageClassification": STAGES, "ConvNextV2ForImageClassification": STAGES,
    "ResNetForImageClassification": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
    | {"embedding_size": 8},
    "RegNetForImageClassification": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
    | {"embedding_size": 8, "groups_width": 8},
    "PoolFormerForImageClassification": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]},
    "SegformerForImageClassification": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
    | {"num_attention_heads": [1, 2, 4, 4]},
    "CLIPModel": CLIP, "SiglipModel": CLIP,
    "Wav2Vec2ForCTC": SOUND, "HubertForCTC": SOUND,
    "WhisperForConditionalGeneration": {"max_source_positions": 8, "max_target_positions": 16}
    | {"num_mel_bins": 8},
    "PatchTSTForPrediction": {"context_length": 16, "prediction_length": 4, "patch_length": 4}
    | {"patch_stride": 4, "num_input_channels": 2},
}  # fmt: skip

IMAGE = {"img_size": 64}
SHIFTED = IMAGE | {"depths": (1, 1, 1, 1), "embed_dim": 24, "window_size": 2}
# timm's name of a model, or its class, -> what is passed besides the number of classes.
TIMM: dict[str, dict[str, Any]] = {
    "test_vit": {}, "test_vit4": {}, "test_resnet": {}, "test_efficientnet": {},
    "test_efficientnet_evos": {}, "test_efficientnet_gn": {}, "test_byobnet": {},
    "test_convnext": {}, "test_convnext2": {}, "test_nfnet": {}, "test_mambaout": {},
    "resnet10t": {}, "seresnext26d_32x4d": {}, "ecaresnet26t": {}, "resnetv2_18": {},
    "mobilenetv3_small_050": {}, "mobilenetv4_conv_small_035": {}, "lcnet_035": {},
    "ghostnet_050": {}, "mixnet_s": {}, "regnetx_002": {}, "regnety_002": {}, "rexnet_100": {},
    "dla46_c": {}, "hrnet_w18_small": {}, "selecsls42b": {}, "repvgg_a0": {},
    "hgnetv2_b0": {}, "res2net50_26w_4s": {"layers": [1, 1, 1, 1]}, "skresnet18": {},
    "resnest14d": {}, "cspresnet50": {}, "ese_vovnet19b_slim": {}, "densenet121": {},
    "xception41": {}, "ConvMixer": {"depth": 2, "dim": 32},
    "MlpMixer": IMAGE | {"num_blocks": 2, "embed_dim": 32},
    "deit_tiny_patch16_224": IMAGE | {"depth": 2, "embed_dim": 48},
    "beit_base_patch16_224": IMAGE | {"depth": 2, "embed_dim": 48, "num_heads": 4},
    "eva02_tiny_patch14_224": {"img_size": 56, "depth": 2},
    "cait_xxs24_224": IMAGE | {"depth": 2}, "xcit_nano_12_p16_224": IMAGE | {"depth": 2},
    "swin_tiny_patch4_window7_224": SHIFTED, "swinv2_tiny_window8_256": SHIFTED,
    "twins_svt_small": IMAGE | {"depths": (1, 1, 1, 1)},
    "pvt_v2_b0": {"depths": (1, 1, 1, 1)},
    "MetaFormer": {"depths": (1, 1, 1, 1), "dims": (16, 16, 24, 32)},
    "edgenext_xx_small": {}, "efficientformer_l1": {}, "fastvit_t8": {}, "repvit_m0_9": {},
    "mobilevit_xxs": {}, "mobilevitv2_050": {}, "levit_128s": {"img_size": 224},
    "tiny_vit_5m_224": {}, "inception_next_atto": {}, "starnet_s1": {},
    "FocalNet": {"depths": (1, 1, 1, 1), "embed_dim": 24},
}  # fmt: skip

SLIM = {"width_mult": 0.25}
WINDOWS = {"patch_size": [4, 4], "embed_dim": 24, "depths": [1, 1], "num_heads": [2, 4]}
# torchvision's name of a model, or its class, -> what is passed besides the number of classes.
TORCHVISION: dict[str, dict[str, Any]] = {
    "alexnet": {}, "squeezenet1_1": {}, "resnet18": {}, "resnet50": {}, "resnext50_32x4d": {},
    "densenet121": {}, "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False}, "mnasnet0_5": {},
    "mobilenet_v2": SLIM, "mobilenet_v3_small": SLIM, "shufflenet_v2_x0_5": {},
    "efficientnet_b0": {}, "efficientnet_v2_s": {}, "regnet_x_400mf": {}, "regnet_y_400mf": {},
    "convnext_tiny": {}, "SwinTransformer": WINDOWS | {"window_size": [4, 4]},
    "VisionTransformer": {"image_size": 64, "patch_size": 16, "num_layers": 2, "num_heads": 4}
    | {"hidden_dim": 32, "mlp_dim": 64},
    "MaxVit": {"input_size": (64, 64), "stem_channels": 16, "partition_size": 2, "head_dim": 8}
    | {"block_channels": [16, 32], "block_layers": [1, 1], "stochastic_depth_prob": 0.1},
}  # fmt: skip
# The side of an image where it is not 64.
SIDES = {"inception_v3": 96, "alexnet": 96, "test_byobnet": 96, "eva02_tiny_patch14_224": 56}
SIDES |= dict.fromkeys(("levit_128s", "tiny_vit_5m_224", "efficientformer_l1"), 224)

NAMES = [
    *(f"transformers/{name}" for name in TRANSFORMERS),
    *(f"timm/{name}" for name in TIMM),
    *(f"torchvision/{name}" for name in TORCHVISION),
]


def build(name: str) -> Subject:
    """Make the architecture `library/name` and a batch for it."""
    library, _, model = name.partition("/")
    torch.manual_seed(0)
    return _of_transformers(model) if library == "transformers" else _of_images(library, model)


def _of_transformers(name: str) -> Subject:
    import transformers

    transformers.logging.set_verbosity_error()
    model_class = getattr(transformers, name)
    config_class = model_class.config_class
    known, own = config_class(), TRANSFORMERS[name]
    settings = {
        key: value
        for key, value in TINY.items()
        if hasattr(known, key) and isinstance(getattr(known, key), (int, type(None)))
    }
    settings = {k: v for k, v in (settings | own).items() if v is not NOT}
    if "text_config" in own:
        settings = own
    model = model_class(config_class(**settings)).train()
    _draw_zero_matrices(model)
    return Subject(model, _batch(name, model), lambda result: result.loss)


def _draw_zero_matrices(model: torch.nn.Module) -> None:
    """Give random weights to matrices of zeros: a router of zeros finds all experts equally good,
    and which of them PyTorch's topk then takes is unspecified."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2 and not parameter.any():
                parameter.normal_(std=0.02)


def _batch(name: str, model: Any) -> dict[str, Any]:
    """Arguments by what the model is for."""
    tokens = torch.randint(2, TOKENS - 1, (2, LENGTH))
    side = getattr(model.config, "image_size", 32)
    images = torch.randn(2, 3, *([side] * 2 if isinstance(side, int) else side))
    if name.endswith("ImageClassification"):
        return {"pixel_values": images, "labels": torch.tensor([0, 1])}
    if name in ("CLIPModel", "SiglipModel"):
        pixels = torch.randn(2, 3, 32, 32)
        return {"input_ids": tokens, "pixel_values": pixels, "return_loss": True}
    if name.endswith("ForCTC"):
        return {"input_values": torch.randn(2, 400), "labels": tokens[:, :4]}
    if name.startswith("Whisper"):
        return {"input_features": torch.randn(2, 8, 16), "labels": tokens}
    if name.startswith("PatchTST"):
        return {"past_values": torch.randn(2, 16, 2), "future_values": torch.randn(2, 4, 2)}
    batch = {"input_ids": tokens, "labels": tokens}
    if name.startswith(("SwitchTransformers", "LongT5")):  # torch.export asks them for one
        batch["attention_mask"] = torch.ones_like(tokens)
    return batch


def _of_images(library: str, name: str) -> Subject:
    settings = (TIMM if library == "timm" else TORCHVISION)[name]
    models = importlib.import_module(f"{library}.models")
    if hasattr(models, name):
        model = getattr(models, name)(num_classes=CLASSES, **settings)
    else:
        model = models.create_model(name, num_classes=CLASSES, **settings)
    side = SIDES.get(name, 64)
    labels = torch.tensor([0, 1])
    argument = "x" if "x" in model.forward.__code__.co_varnames else "input"
    return Subject(
        model.train(),
        {argument: torch.randn(2, 3, side, side)},
        lambda result: torch.nn.functional.cross_entropy(result, labels),
    )
