"""Checks of a newly defined op: its rules are run once on symbols, before anyone relies on them."""

from __future__ import annotations

from typing import Any

from gradwalk.ops import op as op_module
from gradwalk.ops.op import Op, OpError, Rule
from gradwalk.ops.symbol import BranchError, Symbol, output_shapes


def symbolic_env(op: Op, shapes: tuple[Any, ...], attrs: dict[str, Any]) -> dict[str, Any]:
    """Every name a rule may ask for, as a symbol: the environment of the formula reading."""
    env: dict[str, Any] = dict(attrs)
    fixed = len(op.inputs) - op.variadic
    inputs = [
        Symbol(n if i < fixed else f"{n}{i - fixed}", s)
        for i, (n, s) in enumerate(zip(_input_names(op, len(shapes)), shapes, strict=True))
    ]
    for i, name in enumerate(op.inputs):
        tail = op.variadic and i == len(op.inputs) - 1
        env[name] = tuple(inputs[i:]) if tail else inputs[i]
        env[f"{name}_shape"] = tuple(s.shape for s in inputs[i:]) if tail else inputs[i].shape
    outs = output_shapes(op, tuple(inputs), attrs)
    if op.multiple:
        env["g"] = tuple(Symbol(f"g{i}", s) for i, s in enumerate(outs))
        env.update({n: Symbol(n, s) for n, s in zip(op.outputs, outs, strict=False)})
    else:
        env["g"] = Symbol("g", outs[0])
        env["out"] = Symbol("out", outs[0])
    return env


def _input_names(op: Op, count: int) -> list[str]:
    if not op.variadic:
        return list(op.inputs)
    *fixed, tail = op.inputs
    return fixed + [tail] * (count - len(fixed))  # the tail may be empty


def check_elementwise(op: Op) -> None:
    """Run each rule of an elementwise op on symbols and explain what cannot work."""
    attrs = {name: op.defaults.get(name, 1.0) for name in op.attributes}
    try:
        env = symbolic_env(op, ((),) * len(op.inputs), attrs)
    except Exception as error:
        raise OpError(f"op '{op.name}' cannot be read as a formula: {error}") from error
    for name, rule in zip(op.inputs, op.rules, strict=True):
        if rule is not None:
            _check_rule(op, name, rule, env)


def _check_rule(op: Op, name: str, rule: Rule, env: dict[str, Any]) -> None:
    try:
        rule.local(env, env["g"])
    except BranchError as error:
        raise OpError(f"op '{op.name}', rule for input {name}: {error}") from None
    except TypeError as error:
        raise OpError(
            f"op '{op.name}', rule for input {name}: it cannot be read as a formula ({error}). "
            "Use operators and gradwalk's own functions (gradwalk.sqrt instead of np.sqrt or "
            "math.sqrt on an operand)."
        ) from error


# From here on (the built-in ops exist now) every elementwise definition is checked at once.
op_module.check_definition = check_elementwise
