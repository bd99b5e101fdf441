"""Check an op that a user defines: report its mistakes at the definition or at the first use.

The definition of an elementwise op runs its rules on symbols. What depends on shapes (the result of
`forward`, the rules of an op on whole arrays) is checked at the first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core import op as op_module
from gradwalk.ops.core.dtypes import is_complex_dtype, is_number
from gradwalk.ops.core.op import Op, OpError, Rule, UnknownShapeError
from gradwalk.ops.core.symbol import Symbol, output_shapes


def symbolic_env(
    op: Op, shapes: tuple[Any, ...], attrs: dict[str, Any], outs: tuple[Any, ...] | None = None
) -> dict[str, Any]:
    """Every name a rule may ask for, as a symbol: the environment of the formula reading.

    `outs` are the shapes of the outputs, if they are known already.
    """
    inputs = _input_symbols(op, shapes)
    outs = output_shapes(op, tuple(inputs), attrs) if outs is None else outs
    env: dict[str, Any] = {**attrs, "attrs": attrs}
    for i, name in enumerate(op.inputs):
        tail = op.variadic and i == len(op.inputs) - 1
        env[name] = tuple(inputs[i:]) if tail else inputs[i]
        env[f"{name}_shape"] = tuple(s.shape for s in inputs[i:]) if tail else inputs[i].shape
    if op.multiple:
        env["g"] = tuple(Symbol(f"g{i}", s) for i, s in enumerate(outs))
        env.update({n: Symbol(n, s) for n, s in zip(op.outputs, outs, strict=False)})
    else:
        env["g"] = Symbol("g", outs[0])
        env["out"] = Symbol("out", outs[0])
    return env


def _input_symbols(op: Op, shapes: tuple[Any, ...]) -> list[Symbol]:
    if not op.variadic:
        return [Symbol(name, shape) for name, shape in zip(op.inputs, shapes, strict=True)]
    *fixed, tail = op.inputs
    rest = [f"{tail}{i}" for i in range(len(shapes) - len(fixed))]  # the tail may be empty
    return [Symbol(name, shape) for name, shape in zip([*fixed, *rest], shapes, strict=True)]


# -- at the definition ---------------------------------------------------------------------------


def check_elementwise(op: Op, attrs: dict[str, Any] | None = None) -> None:
    """Run each rule of an elementwise op on symbols and explain what cannot work."""
    attrs = op.defaults if attrs is None else attrs
    if len(attrs) < len(op.attributes):
        return  # some have no default: wait for the first use
    env = symbolic_env(op, ((),) * len(op.inputs), attrs)
    for name, rule in zip(op.inputs, op.rules, strict=True):
        if rule is None or rule.constant is not None:
            continue
        result = _run_rule(op, name, rule, env)
        shape = getattr(result, "shape", ())
        if not isinstance(result, (Symbol, int, float)) or shape != ():
            what = f"an array of shape {shape}" if shape else repr(result)
            raise OpError(
                f"op '{op.name}', rule for input {name}: it returns {what}; it must return one "
                "number for one number, made of its parameters by arithmetic."
            )


def _run_rule(op: Op, name: str, rule: Rule, env: dict[str, Any]) -> Any:
    try:
        return rule.local(env, env["g"])
    except OpError as error:
        raise type(error)(f"op '{op.name}', rule for input {name}: {error}") from None
    except Exception as error:
        raise OpError(
            f"op '{op.name}', rule for input {name}: it cannot be read as a formula ({error}). "
            "Use operators and gradwalk's own functions (gradwalk.sqrt instead of np.sqrt or "
            "math.sqrt on an operand)."
        ) from error


# -- at the first use ----------------------------------------------------------------------------


def check_use(op: Op, arrays: list[Any], result: Any, attrs: dict[str, Any]) -> None:
    """Look at what `forward` returned, and run the rules of an op on whole arrays on symbols."""
    shapes = tuple(np.shape(a) for a in arrays)
    results = _checked_results(op, result)
    if op.elementwise:
        expected = np.broadcast_shapes(*shapes)
        if results[0].shape != expected:
            raise OpError(
                f"op '{op.name}': forward returned shape {results[0].shape} for operands of shape "
                f"{', '.join(map(str, shapes))}; an elementwise op returns {expected}, one element "
                "for each. Use gradwalk.define for an op on whole arrays."
            )
        check_elementwise(op, attrs)
    elif not op.array_only:
        _check_rules_on_shapes(op, shapes, tuple(r.shape for r in results), attrs)
    op.checked = True


def _checked_results(op: Op, result: Any) -> list[np.ndarray[Any, Any]]:
    """The outputs and residuals of a forward as arrays of numbers."""
    several = op.multiple or bool(op.residuals)
    if several and not isinstance(result, tuple):
        raise OpError(
            f"op '{op.name}': forward returned {type(result).__name__}; with `outputs` or "
            "`residuals` it returns a tuple of arrays."
        )
    for part in result if several else (result,):
        number = isinstance(part, (np.ndarray, np.generic, bool, int, float))
        dtype = np.asarray(part).dtype
        if not number or not is_number(dtype) or (is_complex_dtype(dtype) and not op.on_complex):
            raise OpError(
                f"op '{op.name}': forward returned {type(part).__name__} ({part!r}); it must "
                "return an array of real numbers."
            )
    return [np.asarray(part) for part in (result if several else (result,))]


def _check_rules_on_shapes(
    op: Op, shapes: tuple[Any, ...], outs: tuple[Any, ...], attrs: dict[str, Any]
) -> None:
    env = symbolic_env(op, shapes, attrs, outs)
    tail = len(op.inputs) - 1
    for position in range(len(shapes)):
        rule = op.rule(position)
        if rule is None:
            continue
        try:
            name = op.inputs[position if position < tail else tail]
            _run_rule(op, name, rule, {**env, "position": position - tail})
        except UnknownShapeError:
            pass  # it picks by a mask: right, though not a formula


# The built-in ops exist now: from here on every definition is a user's, and checked.
op_module.check_definition = check_elementwise
