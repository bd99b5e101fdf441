"""Op: one operation, its forward and its derivative, defined once and read four ways.

    tanh = elementwise("tanh", np.tanh, math.tanh, partials=[lambda out: 1 - out * out])

A rule is ordinary arithmetic, so the kind of operand decides what it means: floats make it a
number, arrays an array, tensors a graph, symbols a formula.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gradwalk.ops.core import public
from gradwalk.ops.core.backward_plan import BackwardPlan
from gradwalk.ops.core.dtypes import LAST_PLAIN, is_complex_dtype, real_only
from gradwalk.ops.core.halves import computed
from gradwalk.ops.core.out import written
from gradwalk.ops.core.signature import OpError as OpError
from gradwalk.ops.core.signature import UnknownShapeError as UnknownShapeError
from gradwalk.ops.core.signature import signature_of, words

Shape = tuple[int, ...]
RuleLike = Callable[..., Any] | float | None

# Set by core/check.py once symbols exist. A test checks the built-in ops, which are defined before.
check_definition: Callable[[Op], None] | None = None

# The names of operands in PyTorch, and NumPy's, which it takes as well.
_FIRST, _SECOND = ("input", "x", "a", "x1"), ("other", "x2")


class Rule:
    """How the gradient of one input follows from `g`, the gradient of the output.

    `names` are the rule's parameters: exactly what backward has to keep. A `partial` is the
    local derivative alone and is multiplied by `g`; otherwise the rule takes `g` itself.
    """

    __slots__ = ("constant", "function", "names", "partial")

    def __init__(self, function: Callable[..., Any] | float, partial: bool) -> None:
        self.partial = partial
        if callable(function):
            self.function: Callable[..., Any] = function
            self.constant: float | None = None
            self.names = tuple(inspect.signature(function).parameters)
        else:
            self.constant = function
            self.function = lambda: function
            self.names = ()

    def local(self, env: dict[str, Any], one: Any = 1.0) -> Any:
        """The local derivative itself: the partial, or the rule with `g` = 1.

        `env` has a value, in any reading, for every name the rule asks for.
        """
        given = {**env, "g": one}
        return self.function(*(given[name] for name in self.names))


def _joint_rules(function: Callable[..., Any], count: int) -> list[Rule]:
    """One rule per input out of a function that computes the contributions to all of them.

    It takes `wants` by keyword; keywords beside it are for other callers.
    """
    asked = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in asked if p.kind is not p.KEYWORD_ONLY and p.name != "wants")
    rules = []
    for position in range(count):
        rule = Rule(function, partial=False)
        rule.names = names
        wants = tuple(i == position for i in range(count))
        rule.function = lambda *args, wants=wants, position=position: function(*args, wants=wants)[
            position
        ]
        rules.append(rule)
    return rules


@dataclass(eq=False, repr=False)
class Op:
    """An operation and its derivative. Make one with `elementwise` or `define`.

    Calling it reads the kind of the operands: the first one with an `_apply` (Tensor, Value,
    Symbol) decides; otherwise arrays are computed at once, and plain numbers as numbers.
    """

    # Keywords of a call that are no attributes, with their defaults: they choose another op or
    # change an operand (see `change`).
    options: ClassVar[dict[str, Any]] = {}

    name: str
    forward: Callable[..., Any]
    number: Callable[..., Any] | None
    rules: Sequence[Rule | None]
    _: KW_ONLY
    elementwise: bool
    # A rule for all inputs at once, where their contributions share most of their work. Its
    # keyword `wants` says which of them are asked for.
    joint: Callable[..., Any] | None = None
    inputs: tuple[str, ...] = ()  # names, given if not those of the forward's parameters
    outputs: tuple[str, ...] = ()  # names, given if there are several
    residuals: tuple[str, ...] = ()  # names of what the forward returns after its outputs
    shape: Callable[..., Any] | None = None
    linear: bool = False
    multilinear: bool = False
    broadcasts: bool = False
    view: bool = False
    keeps_order: bool = False  # of the operand's elements in memory, as elementwise ops do
    promotes: Sequence[int] | bool = False
    to_float: bool = False
    # The dtype of the output where it is not that of the operands, or a function of theirs;
    # a tuple if there are several outputs.
    gives: Any = None
    # What it is for complex operands: itself (True), another op, or refused (False). Rules of real
    # numbers hold for complex ones if the function is holomorphic, because the walk carries ∂L/∂z
    # (ops/elementwise/complex_numbers.py). Those of linear ops and of views always do.
    on_complex: Op | bool | None = None
    expand: Callable[..., Any] | None = None
    # A rule that needs a residual, or NumPy itself, cannot be read as a graph: its second
    # derivative would be silently wrong. Graph readings go through `expand` instead.
    array_only: bool = False
    symbol: str | None = None
    # How its rules are printed, where they are not themselves a formula: one text, or one per
    # input (or a function of the attributes), in which {x} is the name of the input x.
    formula: str | Mapping[str, str | Callable[..., str]] | None = None
    doc: InitVar[str] = ""

    def __post_init__(self, doc: str) -> None:
        own_inputs, self.attributes, self.defaults = signature_of(self.name, self.forward)
        names = words(self.inputs) or own_inputs
        rules = self.rules if self.joint is None else _joint_rules(self.joint, len(names))
        self.rules = tuple(rules)
        self.variadic = bool(names) and names[-1].startswith("*")
        self.inputs = tuple(n.lstrip("*") for n in names)
        self.multiple = bool(self.outputs)
        self.outputs = words(self.outputs) or ("out",)
        self.residuals = words(self.residuals)
        self.array_only = self.array_only or bool(self.residuals) or self.joint is not None
        if self.on_complex is None:
            self.on_complex = self.linear or self.multilinear or self.view
        self.differentiable = any(rule is not None for rule in self.rules)
        self.__name__ = self.name
        outputs = ", ".join(self.outputs)
        self.__doc__ = doc or f"The op `{self.name}`: {', '.join(names)} -> {outputs}."
        self._attribute_set = set(self.attributes)
        # Class of the first operand -> a quicker way to apply this op to it (tensors/quick.py).
        self.quick: dict[type, Callable[..., Any]] = {}
        self.native: Any = None  # runs single calls by kernels (tensors/single_calls.py)
        self._plans: dict[tuple[bool, ...], BackwardPlan] = {}
        self.checked = check_definition is None  # else core/check.py checks the first use
        self._check_definition()

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __copy__(self) -> Self:
        return self  # like a function

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        return public.named, public.name_of(self)

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        if self.attributes or attrs or len(args) != len(self.inputs):
            if "out" in attrs and "out" not in self._attribute_set:  # that of pooling is a shape
                return written(attrs.pop("out"), self(*args, **attrs))
            args, attrs = self._bind(args, attrs)
        elif args:
            quick = self.quick.get(args[0].__class__)
            if quick is not None:
                return quick(*args)
        arrays = unusual = False
        for argument in args:
            kind = argument.__class__
            if kind is np.ndarray:
                arrays = True
                unusual = unusual or argument.dtype.num > LAST_PLAIN
            elif kind is not int and kind is not float:
                apply = getattr(kind, "_apply", None)
                if apply is not None:
                    return apply(self, args, attrs)
                arrays = arrays or isinstance(argument, (np.ndarray, np.generic))
        if arrays:
            if unusual:
                result = computed(self.for_operands(args), args, attrs)
            else:
                native = self.native
                large = native is not None and native.is_large(args)
                result = (native if large else self.forward)(*args, **attrs)
            if not self.residuals:
                return result
            return result[: -len(self.residuals)] if self.multiple else result[0]
        return self.on_numbers(args, attrs)

    def _bind(
        self, args: tuple[Any, ...], attrs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fill in defaults; further positional arguments are attributes, as in PyTorch."""
        count = len(self.inputs)
        if (len(args) == count or self.variadic) and attrs.keys() == self._attribute_set:
            return args, attrs
        if len(args) < count and attrs:
            args, attrs = self._by_name(args, attrs)
        if not self.variadic:
            extra = args[count:]
            if len(args) < count or len(extra) > len(self.attributes):
                raise OpError(
                    f"{self.name} takes {count} operand(s) ({', '.join(self.inputs)})"
                    f"{' and ' + ', '.join(self.attributes) if self.attributes else ''}; "
                    f"it was called with {len(args)}."
                )
            if extra:
                attrs = {**dict(zip(self.attributes, extra, strict=False)), **attrs}
                args = args[:count]
        if self.defaults:
            attrs = {**self.defaults, **attrs}
        if len(attrs) != len(self.attributes) or any(a not in self.attributes for a in attrs):
            unknown = [a for a in attrs if a not in self.attributes]
            missing = [a for a in self.attributes if a not in attrs]
            raise OpError(
                f"{self.name}: "
                + (f"unknown argument(s) {', '.join(unknown)}" if unknown else "")
                + (f"missing argument(s) {', '.join(missing)}" if missing else "")
                + f"; it takes {', '.join((*self.inputs, *self.attributes))}."
            )
        return args, attrs

    def _by_name(
        self, args: tuple[Any, ...], attrs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Operands given as `input=` and `other=`: PyTorch's names, NumPy's, or the op's own."""
        operands, attrs = list(args), dict(attrs)
        for position in range(len(args), len(self.inputs)):
            name = self.inputs[position]
            others = _FIRST if position == 0 else _SECOND if name == "y" else ()
            given = [n for n in {name, *others} if n in attrs]
            if len(given) != 1:  # missing, or given twice: `_bind` raises
                break
            operands.append(attrs.pop(given[0]))
        return tuple(operands), attrs

    def change(self, *args: Any, **attrs: Any) -> tuple[Op, tuple[Any, ...], dict[str, Any]]:
        """What a call amounts to: the op to apply, its operands and its attributes."""
        return (self, *self._bind(args, attrs))

    def signature(self) -> inspect.Signature:
        """The parameters of a call, operands under PyTorch's names."""
        parameter = inspect.Parameter
        plain, by_name = parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY
        shown = {"x": "input", "y": "other"}
        parameters = [parameter(shown.get(name, name), plain) for name in self.inputs]
        if self.variadic:
            parameters[-1] = parameters[-1].replace(kind=parameter.VAR_POSITIONAL)
        required = self.attributes[: len(self.attributes) - len(self.defaults)]
        mixed = self.variadic or any(name in self.defaults for name in required)
        for name in self.attributes:
            default = self.defaults.get(name, parameter.empty)
            parameters.append(parameter(name, by_name if mixed else plain, default=default))
        parameters += [parameter(n, by_name, default=d) for n, d in self.options.items()]
        return inspect.Signature(parameters)

    def for_operands(self, operands: Sequence[Any]) -> Op:
        """The op itself; for complex operands the one that stands for it there, or an error."""
        complexes = [x for x in operands if hasattr(x, "dtype") and is_complex_dtype(x.dtype)]
        if complexes and isinstance(self.on_complex, Op):
            return self.on_complex
        if complexes and not self.on_complex:
            real_only(self.name, complexes[0])
        return self

    def on_numbers(self, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The number reading: Python floats in, a Python number out, IEEE rules throughout."""
        if not self.elementwise:
            raise OpError(
                f"{self.name} works on whole arrays and has no meaning for plain numbers; "
                "give it a Tensor (gradwalk.tensor(...)) or an ndarray."
            )
        if self.number is not None:
            try:
                result = self.number(*args, **attrs)
            except (ZeroDivisionError, OverflowError, ValueError, TypeError):
                pass  # computed below with IEEE rules, or explained
            else:
                if type(result) is not complex:
                    return result
        for argument in args:
            if not isinstance(argument, (bool, int, float)):
                raise OpError(
                    f"{self.name} takes tensors, Values, arrays or numbers, not "
                    f"{type(argument).__name__}; make a tensor of it with gradwalk.tensor(...)."
                )
        with np.errstate(all="ignore"):
            doubles = [np.float64(a) if type(a) is not bool else a for a in args]
            return self.forward(*doubles, **attrs).item()

    def rule(self, position: int) -> Rule | None:
        """The rule of the input at `position`; all inputs of a variadic tail share the last."""
        rules = self.rules
        return rules[position] if position < len(rules) else rules[-1]

    def plan(self, needs: tuple[bool, ...]) -> BackwardPlan:
        """What to save and how to pull if just the inputs marked in `needs` want a gradient."""
        plan = self._plans.get(needs)
        if plan is None:
            plan = self._plans[needs] = BackwardPlan(self, needs)
        return plan

    # -- checks of the definition -------------------------------------------------------------

    def _check_definition(self) -> None:
        count = len(self.inputs)
        if len(self.rules) != count:
            raise OpError(
                f"op '{self.name}' has {count} input(s) ({', '.join(self.inputs)}) but "
                f"{len(self.rules)} derivative rule(s); give one rule per input, None where "
                "there is no gradient."
            )
        if self.array_only and self.expand is None:
            raise OpError(
                f"op '{self.name}' keeps residuals or has a joint rule, so it needs `expand`, a "
                "definition in other ops: second derivatives are taken through that."
            )
        allowed = {
            *self.inputs,
            *(f"{i}_shape" for i in self.inputs),
            *self.outputs,
            *self.residuals,
            *self.attributes,
            *(["attrs"] if self.attributes else []),
        }
        for input_name, rule in zip(self.inputs, self.rules, strict=True):
            if rule is None:
                continue
            known = set(allowed)
            if not rule.partial:
                known.add("g")
            if self.variadic and input_name == self.inputs[-1]:
                known.add("position")
            for name in rule.names:
                if name == "g" and rule.partial:
                    raise OpError(
                        f"op '{self.name}': the partial for input {input_name} asks for g. A "
                        "partial is the local derivative alone (the engine multiplies by g); "
                        "pass rules that take g as `vjp=` instead."
                    )
                if name not in known:
                    raise OpError(
                        f"op '{self.name}': the rule for input {input_name} asks for '{name}', "
                        f"which is not available. Available: {', '.join(sorted(known))}."
                    )


def _rules(
    name: str, partials: Sequence[RuleLike] | None, vjp: Sequence[RuleLike] | None
) -> list[Rule | None]:
    if partials is not None and vjp is not None:
        raise OpError(f"op '{name}': give `partials` or `vjp`, not both.")
    given = partials if partials is not None else vjp
    if given is None:
        raise OpError(
            f"op '{name}' has no derivative: give `partials` (local derivatives) or `vjp` (rules "
            "that take g), one per input, None for an input without a gradient."
        )
    partial = partials is not None
    return [None if rule is None else Rule(rule, partial or not callable(rule)) for rule in given]


def elementwise(
    name: str,
    forward: Callable[..., Any],
    number: Callable[..., Any] | None = None,
    *,
    partials: Sequence[RuleLike] | None = None,
    vjp: Sequence[RuleLike] | None = None,
    kind: type[Op] = Op,
    method: bool | Callable[..., Any] = False,
    inplace: bool = False,
    names: str = "",
    namespaces: str = "",
    **facts: Any,
) -> Op:
    """Define an op that works element by element, and get everything else for it.

    `forward` computes on arrays, `number` on floats (left out, `forward` is used). Each partial
    is the local derivative for one input; its parameter names say what it needs: `out`, an
    input's name, an attribute. `vjp` rules take `g` as well.

    With `method`, tensors and Values get a method of that name (or of each of `names`, separated
    by spaces); with `inplace`, tensors one with an underscore as well.

    >>> import numpy as np, gradwalk as gw
    >>> softsign = gw.elementwise(
    ...     "softsign", lambda x: x / (1 + np.abs(x)), partials=[lambda x: 1 / (1 + gw.abs(x)) ** 2]
    ... )
    >>> x = gw.Value(1.0)
    >>> softsign(x).backward()
    >>> x.grad
    0.25
    """
    facts.setdefault("promotes", True)
    op = kind(name, forward, number, _rules(name, partials, vjp), elementwise=True, **facts)
    if check_definition is not None:
        check_definition(op)
    return _offered(op, names or name, namespaces, method, inplace)


def define(
    name: str,
    forward: Callable[..., Any],
    *,
    vjp: Sequence[RuleLike] = (),
    method: bool | Callable[..., Any] = False,
    inplace: bool = False,
    names: str = "",
    namespaces: str = "",
    **facts: Any,
) -> Op:
    """Define an op on whole arrays: one `vjp` rule per input, written in ops and operators.

    Where the contributions to all inputs share most of their work, `joint=` is one rule that
    returns all of them; it is for arrays and needs `expand=`. `method`, `inplace` and `names` are
    those of `elementwise`.

    >>> import numpy as np, gradwalk as gw
    >>> twice_total = gw.define(
    ...     "twice_total",
    ...     lambda x: 2 * np.sum(x),
    ...     vjp=[lambda g, x_shape: gw.broadcast_to(2 * g, x_shape)],
    ... )
    >>> x = gw.tensor([1.0, 2.0], requires_grad=True)
    >>> twice_total(x).backward()
    >>> x.grad
    tensor([2., 2.])
    """
    op = Op(name, forward, None, _rules(name, None, vjp), elementwise=False, **facts)
    return _offered(op, names or name, namespaces, method, inplace)


def _offered(
    op: Op, names: str, namespaces: str, method: bool | Callable[..., Any], inplace: bool
) -> Op:
    """Register what the definition of an op offers, and return the op."""
    if not (method or inplace or namespaces):
        return op
    listed = tuple(names.split())
    wanted = {*(listed if method else ()), *(f"{name}_" for name in listed if inplace)}
    taken = sorted(wanted & public.reserved)
    if taken:
        raise OpError(
            f"op '{op.name}': a Tensor has a method '{taken[0]}' already. Give the method another "
            f"name: names='my_{op.name}'."
        )
    spaces = tuple(namespaces.split())
    public.register(public.Registration(op, listed, spaces, method, inplace))
    return op


def unary(
    name: str,
    forward: Callable[..., Any],
    slope: Callable[..., Any] | float,
    doc: str,
    *,
    number: Callable[..., Any] | None = None,
    **facts: Any,
) -> Op:
    """Define a function of one float that is a method and an in-place method as well.

    `slope` is its derivative, or a rule that takes `g`. For a ufunc, `number` is the function of
    that name in `math`, and the op has the ufunc's name too (`asin` is `arcsin`).
    """
    if isinstance(forward, np.ufunc):
        number = number or getattr(math, name)
        facts.setdefault("names", " ".join(dict.fromkeys((name, forward.__name__))))
    takes_g = callable(slope) and "g" in inspect.signature(slope).parameters
    facts["vjp" if takes_g else "partials"] = [slope]
    return elementwise(name, forward, number, doc=doc, **public.FLOAT | facts)
