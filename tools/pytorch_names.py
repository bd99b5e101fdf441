"""Compare PyTorch's public names and keywords with gradwalk's.

`tools/coming_from_pytorch.py` makes a page of the result.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

import gradwalk as gw


@dataclass(frozen=True)
class Rule:
    """Names that are not counted as missing, and the reason the page gives."""

    reason: str
    pattern: str  # must match the whole name


LEFT_OUT = (
    Rule("quantization", r".*(quant|qparams|fbgemm|int_repr|q_per|q_scale|q_zero|qscheme).*"),
    Rule(
        "sparse, nested and packed layouts",
        r".*(sparse|[Ss]parse|coalesce|mkldnn|nested|padded_tensor|layout|sspaddmm).*"
        r"|(c?col|c?row)_indices|values|indices|h?s?p?s?mm|dense_dim|to_dense|dim_order|saddmm",
    ),
    Rule(
        "devices other than the CPU, half precision, several machines",
        r".*(cuda|cudnn|miopen|xpu|mtia|ipu|maia|vulkan|xla|mps|autocast|[Dd]istributed"
        r"|DataParallel|SyncBatchNorm|ScalingType|SwizzleType|default_device|device_module|pin_memory|pinned|stream"
        r"|share_memory|shared|memory_format|bfloat16|half|float16|grouped_mm|scaled_mm).*"
        r"|to_empty|foreach.*",
    ),
    Rule(
        "complex numbers in half precision, eigenvalues of general matrices",
        r".*(complex32|chalf|ComplexHalf).*|eig|eigvals|is_neg",
    ),
    Rule(
        "compiling, tracing, storage, threads and worker processes",
        r".*(script|sym_|compile|storage|deterministic|anomaly|profiler|torch_function|_ir\b"
        r"|num_(interop_)?threads|[Dd]ata[Pp]ipe|DataChunk|worker_info|validation|multithreading"
        r"|view_replay|denormal|matmul_precision|warn_always|type_comment|vitals|functionalize).*"
        r"|cond|while_loop|export|set_|is_set_to|as_subclass|module_load|typename|fork|wait"
        r"|import_ir_module.*|parse_(ir|schema)|unify_type_list|get_file_path|is_inference.*"
        r"|prepare_multiprocessing_environment|thread_safe_generator|hash_tensor|profile_hook_step"
        r"|reinforce|dump_patches|call_super_init|T_destination|classproperty|from_file|frombuffer"
        r"|kineto_available|enforce_grad_layout_policy|NestedIOFunction|debug_unwrap|linearize"
        r"|stack_module_state|skip_init|Optimizer(Pre|Post)Hook|graphsafe_.*|(get|set)_offset"
        r"|swap_in_optimizer_params_and_state|factory_kwargs|default_convert",
    ),
    Rule(
        "PyTorch's internal steps, and copies of views",
        r".*(_copy|_ex|_with_indices|_as_strided.*)|as_strided.*|(unsafe|native|batch_norm)_.*"
        r"|empty_(strided|permuted)|output_nr|grad_dtype|name|slice_inverse|constant_pad_nd|rsub"
        r"|boolean_dispatch|assert_int_or_pair|multi_head_attention_forward|RNNBase|resize_.*",
    ),
    Rule(
        "names that PyTorch has deprecated or removed",
        r"volatile|new|resize|resize_as|lstsq|lu|lu_solve|lu_unpack|solve|symeig|qr|svd|cholesky"
        r"|matrix_rank|chain_matmul|triangular_solve|geqrf|orgqr|ormqr|range|upsample.*|pinverse"
        r"|NLLLoss2d|Container|CrossMapLRN2d|Variable|register_backward_hook|clip_grad_norm|apply_"
        r"|set_default_tensor_type|norm_except_dim|dirac|eye|constant|map2?_|to_dlpack|conv_tbc"
        r"|(kaiming|xavier)_(normal|uniform)|normal|uniform|orthogonal|remove_spectral_norm|spectral_norm",
    ),
)

# torch.Value is something else: a value in a compiled graph.
NAMESAKES = {"Value"}
# PyTorch documents them with an operand, but they take none.
MISPRINTS = {"arctanh_", "atanh_"}

# Keywords about where a result goes and how it is laid out, deprecated and private ones.
IGNORED_KEYWORDS = {
    "out", "out_dtype", "layout", "pin_memory", "memory_format", "names", "size_average", "reduce",
    "non_blocking", "async", "foreach", "fused", "capturable", "sparse", "sparse_grad", "driver",
    "only_inputs", "grad_variables", "min_value", "max_value", "**", "*",
    "self",  # of pow: a number, by position
}  # fmt: skip


@dataclass(frozen=True)
class Namespace:
    """A namespace of PyTorch and its counterpart in gradwalk."""

    title: str  # in PyTorch
    here: str  # its name in gradwalk
    theirs: Any
    ours: Any
    groups: tuple[tuple[str, str], ...] = ()  # of missing names: a title and a pattern


@dataclass
class Comparison:
    """The names of a namespace that gradwalk has and lacks, and missing keywords."""

    here: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    keywords: dict[str, list[str]] = field(default_factory=dict)


def compare(place: Namespace) -> Comparison:
    """Compare every public name of PyTorch's namespace."""
    found = Comparison()
    listed = None if place.theirs is torch else getattr(place.theirs, "__all__", None)
    for name in sorted(set(listed or dir(place.theirs)) - NAMESAKES):
        here = hasattr(place.ours, name)
        if name.startswith("_") or not _counts(place.theirs, name, here):
            continue
        if here:
            found.here.append(name)
            both = getattr(place.theirs, name), getattr(place.ours, name)
            lacking = missing_keywords(name, *both, place.ours)
            if lacking:
                found.keywords[name] = lacking
        elif not any(re.fullmatch(rule.pattern, name) for rule in LEFT_OUT):
            found.missing.append(name)
    return found


def _counts(place: Any, name: str, here: bool) -> bool:
    """Whether a name belongs to a namespace: a documented function or class, not an import."""
    value = getattr(place, name)
    if isinstance(place, type):
        return True
    if isinstance(value, ModuleType) or not callable(value):
        return False
    if not str(getattr(value, "__module__", None) or "torch").startswith("torch"):
        return False
    if place is torch and isinstance(value, type) and not here:
        return False  # types of storages, of tensors on devices, of the compiler
    return bool(value.__doc__) or here


@dataclass(frozen=True)
class Form:
    """One signature of a function: positional parameters, and keyword-only ones.

    "*" and "**" mean any number of either.
    """

    by_position: tuple[str, ...]
    by_name: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.by_position + self.by_name


def missing_keywords(name: str, theirs: Any, ours: Any, owner: Any = None) -> list[str]:
    """The parameters that PyTorch's function has and gradwalk's lacks.

    A parameter with another name in the same position is not missing.
    """
    forms, known = forms_of(theirs, name), forms_of(ours, name)
    if isinstance(owner, type):  # a function of ours as a method: the tensor comes first
        known = [
            Form(form.by_position[form.by_position[:1] == ("input",) :], form.by_name)
            for form in known
        ]
    if not forms or not known or any("**" in form.by_name for form in known):
        return []
    here = {keyword for form in known for keyword in form.names}
    there = {keyword for form in forms for keyword in form.names}
    lacking = []
    for form in forms:
        for place, keyword in enumerate(form.names):
            if keyword in here or keyword in IGNORED_KEYWORDS or keyword.startswith("_"):
                continue
            if place < len(form.by_position) and any(
                _another_name(own, place, there) for own in known
            ):
                continue
            lacking.append(keyword)
    return list(dict.fromkeys(lacking))


def _another_name(own: Form, place: int, there: set[str]) -> bool:
    """Whether gradwalk's function has a parameter of its own in this position."""
    if place >= len(own.by_position):
        return "*" in own.by_position
    return own.by_position[place] not in there or own.by_position[place] == "*"


# Ops whose calls take options that are not attributes; their in-place forms name them.
_OPTIONS = ("add", "sub", "div")


def forms_of(value: Any, name: str) -> list[Form]:
    """The signatures of a function; empty if they are unknown."""
    if isinstance(value, gw.Op):
        options: tuple[str, ...] = ()
        if value.name in _OPTIONS:
            method = getattr(gw.Tensor, f"{value.name}_")
            options = tuple(inspect.signature(method).parameters)[2:]
        return [Form((*value.inputs, *value.attributes), options)]
    if not callable(value) or name in MISPRINTS:
        return []
    if not inspect.isfunction(value) and not inspect.isclass(value):
        described = _described_forms(value, name)
        if described:
            return described
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    by_position, by_name = [], []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            by_position.append("*")
        elif p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD):
            by_name.append("**" if p.kind is p.VAR_KEYWORD else p.name)
        elif p.name != "self":
            by_position.append(p.name)
    # Aliases of parameters (`axis` for `dim`) are in no signature.
    by_name += getattr(value, "known_as", {})
    return [Form(tuple(by_position), tuple(by_name))]


def _described_forms(value: Any, name: str) -> list[Form]:
    """Every signature at the start of a line of a PyTorch docstring."""
    start = re.compile(
        rf"^(?:\.\. (?:function|method):: )?(?:torch\.)?(?:\w+\.)*{re.escape(name)}(\(.*?\))"
        r"\s*(?:->|$)",
        re.MULTILINE,
    )
    forms = []
    for found in start.finditer(value.__doc__ or ""):
        try:
            tree = ast.parse(f"def f{found[1]}: pass").body[0]
        except SyntaxError:  # "size..." and the like
            continue
        assert isinstance(tree, ast.FunctionDef)
        given = tree.args
        by_position = [a.arg for a in (*given.posonlyargs, *given.args)]
        if given.vararg is not None:
            by_position.append("*")
        forms.append(Form(tuple(by_position), tuple(a.arg for a in given.kwonlyargs)))
    return forms
