"""Every module of PyTorch's own database of modules, on every input that it has for it.

The same weights under the same names: outputs, gradients, state dicts and text are PyTorch's.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_modules import ModuleInfo, module_db

import gradwalk as gw
from tests.batches import batched

# PyTorch warns of what its own samples ask for.
pytestmark = pytest.mark.filterwarnings("ignore")


def ours(thing: Any) -> Any:
    """PyTorch's arguments as gradwalk's."""
    if isinstance(thing, torch.Tensor):
        made = gw.tensor(thing.detach().numpy())
        return made.requires_grad_() if thing.requires_grad else made
    if isinstance(thing, torch.dtype):
        return getattr(gw, str(thing).removeprefix("torch."))
    if isinstance(thing, torch.nn.Module):
        return twin(thing)
    if isinstance(thing, (list, tuple)):
        return type(thing)(ours(part) for part in thing)
    if isinstance(thing, dict):
        return {key: ours(value) for key, value in thing.items()}
    if inspect.isfunction(thing) or inspect.isbuiltin(thing):
        return getattr(gw.nn.functional, thing.__name__, thing)
    return thing


def twin(module: torch.nn.Module) -> Any:
    """The same layer of gradwalk: one that another module is made of."""
    assert isinstance(module, torch.nn.TransformerEncoderLayer)
    return gw.nn.TransformerEncoderLayer(
        module.self_attn.embed_dim,
        module.self_attn.num_heads,
        module.linear1.out_features,
        module.dropout.p,
        getattr(gw.nn.functional, module.activation.__name__),
        module.norm1.eps,
        module.self_attn.batch_first,
        module.norm_first,
        module.linear1.bias is not None,
    )


def tensors(result: Any) -> list[Any]:
    """The tensors of nested containers."""
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors(part)]
    if isinstance(result, dict):
        return tensors(list(result.values()))
    return [result] if hasattr(result, "detach") else []


def assert_close(mine: Any, theirs: Any, what: str) -> None:
    np.testing.assert_allclose(
        np.asarray(mine.detach()), theirs.detach().numpy(), rtol=1e-7, atol=1e-8, err_msg=what
    )


def check(kind: type, name: str, sample: Any, training: bool) -> None:
    given, call = sample.constructor_input, sample.forward_input
    torch.manual_seed(0)
    theirs = kind(*given.args, **given.kwargs).double()
    mine = getattr(gw.nn, name)(*ours(given.args), **ours(given.kwargs)).double()
    arguments = torch.utils._pytree.tree_map(
        lambda t: (
            t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t
        ),
        (call.args, call.kwargs),
    )
    own = ours(arguments)
    lazy = name.startswith("Lazy")
    if lazy:  # their weights are drawn in the first call
        theirs(*arguments[0], **arguments[1])
        mine(*own[0], **own[1])
    assert list(mine.state_dict()) == list(theirs.state_dict())
    mine.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    theirs.train(training)
    mine.train(training)
    results = tensors(theirs(*arguments[0], **arguments[1])), tensors(mine(*own[0], **own[1]))
    assert len(results[0]) == len(results[1])
    for number, (their_result, my_result) in enumerate(zip(*results)):
        assert_close(my_result, their_result, f"output {number}")
    flows = [[t for t in side if t.requires_grad] for side in results]
    assert len(flows[0]) == len(flows[1])
    if flows[0]:
        for side in flows:
            sum((t * t).sum() for t in side).backward()
    for (key, parameter), (_, other) in zip(theirs.named_parameters(), mine.named_parameters()):
        assert (parameter.grad is None) == (other.grad is None), key
        if parameter.grad is not None:
            assert_close(other.grad, parameter.grad, f"gradient of {key}")
    for their_leaf, my_leaf in zip(tensors(arguments), tensors(own)):
        if their_leaf.grad is not None and not leaves_out(name):
            assert_close(my_leaf.grad, their_leaf.grad, "gradient of an input")
    for key, value in theirs.state_dict().items():
        assert_close(mine.state_dict()[key], value, key)


def leaves_out(name: str) -> bool:
    """PyTorch's gradient of CTCLoss is that of the scores, for inputs that are log softmaxes."""
    return name == "CTCLoss"


@batched("info", module_db, key=lambda info: info.name[:6])
def test_module_is_pytorchs(info: ModuleInfo) -> None:
    for training in (True, False) if info.train_and_eval_differ else (True,):
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
        )
        for sample in samples:
            try:
                check(info.module_cls, info.module_cls.__name__, sample, training)
            except Exception as error:
                error.add_note(f"{sample.desc or sample.constructor_input}, training={training}")
                raise


# What PyTorch's layers refuse and ours answer: part of PyTorch's message -> why.
ANSWERED = {
    "RNN input dtype": "an operand of another dtype is promoted",
    "expected scalar type": "the same",
    "delta must be a float or int": "a complex delta gives a complex loss",
}


@pytest.mark.parametrize(
    "info", [i for i in module_db if i.module_error_inputs_func], ids=lambda i: i.name
)
def test_what_pytorchs_layers_refuse_is_refused(info: ModuleInfo) -> None:
    for training in (True, False):
        mistakes = info.module_error_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=False, training=training
        )
        for mistake in mistakes:
            if any(part in str(mistake.error_regex) for part in ANSWERED):
                continue
            made, call = (
                mistake.module_error_input.constructor_input,
                mistake.module_error_input.forward_input,
            )
            with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)):
                layer = getattr(gw.nn, info.module_cls.__name__)(
                    *ours(made.args), **ours(made.kwargs)
                )
                layer.double()(*ours(call.args), **ours(call.kwargs))
                pytest.fail(f"{info.name} took {made.args}, {made.kwargs}")
