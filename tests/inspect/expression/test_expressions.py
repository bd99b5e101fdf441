"""Expressions from text: the pinned grammar, what is built, and what hostile text cannot do."""

import builtins
import json
import math
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gradwalk import Value
from gradwalk.inspect.expression.parser import DEFAULT, expression, parse
from gradwalk.inspect.expression.tokens import (
    CONSTANTS,
    DEEPEST,
    FUNCTIONS,
    LONGEST,
    LONGEST_NAME,
    MOST_TOKENS,
    ExpressionError,
)
from gradwalk.ops import TABLE
from tests.batches import batched

GRAMMAR = json.loads((Path(__file__).parent / "grammar.json").read_text(encoding="utf-8"))
CASES = GRAMMAR["cases"]
GOOD = [case for case in CASES if "tree" in case]
BAD = [case for case in CASES if "error" in case]


# -- the grammar ---------------------------------------------------------------------------------


def test_the_file_has_its_cases_once_and_both_kinds() -> None:
    sources = [case["source"] for case in CASES]
    assert len(set(sources)) == len(sources) >= 200
    assert len(GOOD) > 100
    assert len(BAD) > 100


@batched("source, tree", [(case["source"], case["tree"]) for case in GOOD])
def test_tree(source: str, tree: Any) -> None:
    assert parse(source).tree() == tree


@batched("source, error", [(case["source"], case["error"]) for case in BAD])
def test_error_column(source: str, error: dict[str, int]) -> None:
    with pytest.raises(ExpressionError) as found:
        parse(source)
    assert {"line": found.value.line, "column": found.value.column} == error


def test_the_file_states_the_limits_and_the_functions() -> None:
    limits = {"characters": LONGEST, "tokens": MOST_TOKENS, "levels": DEEPEST, "name": LONGEST_NAME}
    assert GRAMMAR["limits"] == limits
    assert GRAMMAR["constants"] == list(CONSTANTS)
    known = {name: {"op": f.op, "values": f.arity} for name, f in FUNCTIONS.items()}
    # A new op may be called at once; the page's parser takes its table from the ops as well.
    assert GRAMMAR["functions"].items() <= known.items()


def python_value(source: str, values: dict[str, float]) -> Any:
    """What Python makes of the same text: says how operators bind independently of our parser."""
    for ours, theirs in {"^": "**", "·": "*", "⋅": "*", "×": "*", "−": "-"}.items():
        source = source.replace(ours, theirs)
    source = re.sub(
        r"(?<![\w.])([0-9]+)(?![\w.])", r"\1.0", source
    )  # 9**9**9 of ints takes forever
    names = {"max": max, "min": min, "abs": abs, "tanh": math.tanh, "exp": math.exp}
    names |= {"sin": math.sin, "cos": math.cos, "relu": lambda x: max(x, 0.0), "pi": math.pi}
    return eval(source, {"__builtins__": {}}, {**names, **values})


SHORT = [
    case["source"]
    for case in GOOD
    if not set(case["source"]) & set("=;\n\r") and len(case["source"]) < 40
]


def test_operators_bind_as_in_python() -> None:
    compared = 0
    for source in SHORT:
        program = parse(source)
        values = {name: 1.25 + 0.5 * i for i, name in enumerate(program.leaves)}
        try:
            expected = python_value(source, values)
        except (SyntaxError, NameError, ArithmeticError):
            continue  # a keyword, one of our functions, or 1/0: nothing to compare with
        if expected is None:
            continue  # `None` is a name here
        built = program.build(values).root.data
        assert built == pytest.approx(float(expected), nan_ok=True), source
        compared += 1
    assert compared > 80


@given(st.text(alphabet="ab2(+-*/^),. =;\nx", max_size=30))
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused_and_then_agrees_with_python(source: str) -> None:
    try:
        program = parse(source)
    except ExpressionError as error:
        lines = source.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        return
    values = dict.fromkeys(program.leaves, 1.5)
    built = program.build(values).root.data
    if len(program.statements) == 1 and not program.assigned and "\n" not in source.strip():
        try:
            expected = python_value(source.strip("; \n"), {**values})
        except (SyntaxError, ArithmeticError):
            return  # leading zeros, 1/0
        if not isinstance(expected, complex):
            assert built == pytest.approx(float(expected), nan_ok=True)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_the_reader(source: str) -> None:
    try:
        parse(source).build()
    except ExpressionError as error:
        str(error).encode("utf-8", "surrogatepass")


# -- errors a person can use ---------------------------------------------------------------------


def test_an_error_points_at_the_column_and_gives_a_hint() -> None:
    with pytest.raises(ExpressionError) as found:
        parse("y = 2x + 1")
    assert str(found.value) == (
        "'x' follows a number without an operator\n  y = 2x + 1\n       ^\nHint: write 2*x"
    )


def test_of_a_long_line_the_part_around_the_error_is_shown() -> None:
    source = "+".join(["abc"] * 60) + "+ $" + "+a" * 40
    with pytest.raises(ExpressionError) as found:
        parse(source)
    _, shown, caret = str(found.value).splitlines()
    assert max(len(shown), len(caret)) <= 80
    assert shown[caret.index("^")] == "$"


def test_in_several_lines_the_line_is_named() -> None:
    with pytest.raises(ExpressionError, match=r"line 2:\n  b = a \$ 2\n {8}\^"):
        parse("a = 1\nb = a $ 2")


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("2x", "write 2*x"),
        ("2(a+b)", "write 2*("),
        ("(a)(b)", "write )*("),
        ("tnh(x)", "did you mean tanh"),
        ("a(b+c)", "write a*("),
        ("σ(x)", "write sigmoid"),
        ("x²", "write ^2"),
        ("a–b", "write - for minus"),
        ("tanh", "write tanh("),
        ("√x", "sqrt"),
        ("a\na = 2", "name ="),
    ],
)
def test_hints(source: str, hint: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(hint)):
        parse(source)


# -- what is built -------------------------------------------------------------------------------


def gradients(source: str, **values: float) -> dict[str, float]:
    built = parse(source).build(values)
    built.root.backward()
    return {name: v.grad for name, v in built.names.items()}


@pytest.mark.parametrize(
    ("source", "values", "forward", "grads"),
    [
        ("e = a+b; f = e·c", dict(a=2, b=-3, c=10), -10, dict(e=10, c=-1, a=10, b=10)),
        (
            "e = a·b; d = e+c; L = f·d",
            dict(a=2, b=-3, c=5, f=-2),
            2,
            dict(f=-1, d=-2, e=-2, c=-2, a=6, b=-4),
        ),
        (
            "tanh(x1*w1 + x2*w2 + b)",
            dict(x1=2, w1=-3, x2=0, w2=1, b=6.8813735870195432),
            0.5**0.5,
            dict(w1=1.0, x1=-1.5, w2=0, x2=0.5, b=0.5),
        ),
        ("f = a·a", dict(a=3), 9, dict(a=6)),
        ("b = a + 1; c = 3*a; d = b*c", dict(a=2), 18, dict(a=15, b=6, c=3)),
        ("y = x^3 + 5*x", dict(x=2), 18, dict(x=17)),
        ("max(a, b)", dict(a=2, b=-3), 2, dict(a=1, b=0)),
        ("max(a, b)", dict(a=2, b=2), 2, dict(a=0.5, b=0.5)),
        ("a = 2·x; b = 3·a; c = b+1; d = a·c", dict(x=1), 14, dict(x=26)),
        ("(exp(2*x) - 1)/(exp(2*x) + 1)", dict(x=0.5), math.tanh(0.5), {}),
    ],
)
def test_the_examples_of_the_mission(
    source: str, values: dict[str, float], forward: float, grads: dict[str, float]
) -> None:
    assert parse(source).build(values).root.data == pytest.approx(forward)
    found = gradients(source, **values)
    assert {name: found[name] for name in grads} == pytest.approx(grads)


def test_names_without_a_value_are_set_to_the_default_and_said() -> None:
    built = parse("a*b + c").build(b=3)
    assert built.assumed == ("a", "c")
    assert built.names["a"].data == DEFAULT
    assert built.root.data == 4


def test_numbers_are_folded_and_a_power_has_one_input() -> None:
    root = expression("2*3*x^2", x=5)
    constant, power = root.inputs
    assert (constant.data, constant.inputs) == (6.0, ())
    assert (power.op.name, power.attrs, len(power.inputs)) == ("power", {"exponent": 2}, 1)
    assert expression("x^(1/2)").attrs == {"exponent": 0.5}
    assert expression("n = 2; x^n").op.name == "pow"


def test_inner_nodes_get_labels_that_do_not_clash() -> None:
    built = parse("v1 = a*b; out = v1 + tanh(a)*c; out*out").build()
    labels = []
    stack = [built.root]
    while stack:
        v = stack.pop()
        labels += [v.label] * bool(v.inputs)
        stack += v.inputs
    assert sorted(set(labels)) == ["out", "v1", "v2", "v3", "v4"]
    assert built.root.label == "v4"  # `out` is taken


def test_a_constant_assignment_is_a_leaf_that_may_be_overridden() -> None:
    program = parse("x = 2; y = x*x")
    assert program.build().root.data == 4
    assert program.build(x=3).root.data == 9
    with pytest.raises(ValueError, match="'y' is computed"):
        program.build(y=3)
    with pytest.raises(ValueError, match=r"no 'z' to set; its leaves are: x"):
        program.build(z=3)


def test_two_names_for_one_value_and_names_that_are_not_used() -> None:
    built = parse("y = x; e = x*3; y*y").build(x=4)
    assert built.names["y"] is built.names["x"]
    assert built.unused == ("e",)
    assert parse("x").build(x=2).root is not None
    assert expression("2 + 3").data == 5


def test_the_trace_knows_its_statement() -> None:
    trace = parse("e = a*b\nf = e + 1").build(a=2, b=3).trace()
    assert trace["e"].line is not None
    assert (trace["e"].line.line, trace["e"].line.text) == (1, "e = a*b")
    assert str(trace["f"].line) == "expression:2: f = e + 1"
    assert trace["a"].line is None
    assert trace.grad("a") == 3


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_can_be_built_and_differentiated(name: str) -> None:
    op = TABLE[FUNCTIONS[name].op]
    inputs = [f"x{i}" for i in range(FUNCTIONS[name].arity)]
    root = expression(
        f"{name}({', '.join(inputs)})", dict.fromkeys(inputs, 1.5 if name == "acosh" else 0.6)
    )
    root.backward()
    assert root.op is op
    assert all(math.isfinite(i.grad) for i in root.inputs)


# -- numbers by IEEE, and hostile text -----------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1/x", math.inf),
        ("-1/x", -math.inf),
        ("x/x", math.nan),
        ("log(x)", -math.inf),
        ("log(x - 1)", math.nan),
        ("sqrt(x - 1)", math.nan),
        ("1e999*y", math.inf),
        ("9**9**9*y", math.inf),
        ("y*9^9^9^9", math.inf),
        ("(y+8)^(y+8)^(y+8)^9", math.inf),
        ("0*inf*y", math.nan),
        ("exp(y*1000)", math.inf),
        ("2**-99999999999*y", 0.0),
        ("(0-8)^(1/3)*y", math.nan),
        ("x^-1", math.inf),
        ("round(y*inf)", math.inf),
    ],
)
def test_numbers_are_ieee_and_come_at_once(source: str, value: float) -> None:
    program = parse(source)
    root = program.build({name: {"x": 0.0, "y": 1.0}[name] for name in program.leaves}).root
    root.backward()
    assert root.data == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0]",
        "(lambda: 1)()",
        "[x for x in (1,2)]",
        "x.__globals__",
        "f'{x}'",
        "exec('x')",
        "open(x)",
        "x if y else z",
        "x; import os",
        "yield x",
        "await(x)",
        "*x",
        "x: int = 2",
        "del x",
        "a = b := 2",
        "getattr(x, y)",
        "\\u0061",
        "x\\\n+y",
        "tanh(*x)",
        "tanh(**x)",
        "tanh(x=1)",
        "print()",
        "𝐱 + 1",
        "ﬁ + 1",
        "е\u0301",
        "x\u2062y",
        "\ufeffx",
        "x\x0b+1",
        "x\u2028y = 1",
        "(" * 5000,
        "-" * 5000,
        "^" * 5000,
        "a" * 9999,
        "9" * 20_000,
        "a+" * 5000,
        "tanh(" * 2000,
        "=" * 3000,
        ";" * 20_000,
    ],
)
def test_hostile_text_is_refused_at_once(source: str) -> None:
    with pytest.raises(ExpressionError):
        parse(source)


def test_python_never_sees_a_word_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("Python was given a text")

    for name in ("compile", "eval", "exec"):  # ast.parse calls compile
        monkeypatch.setattr(builtins, name, refused)
    program = parse("secret = tanh(exit^2) + lambda; 3*secret")
    assert program.tree() == "(= secret (+ (tanh (^ exit 2)) lambda)); (* 3 secret)"


def test_the_longest_sum_and_the_longest_number_are_read() -> None:
    terms = MOST_TOKENS // 2
    root = expression("+".join(["a"] * terms), a=1)
    assert root.data == terms
    root.backward()
    a: Value = root
    while a.inputs:
        a = a.inputs[1]
    assert a.grad == terms
    assert expression("9" * 400 + "*a").data == math.inf
    with pytest.raises(ExpressionError, match="2,000 words and signs"):
        parse("+".join(["a"] * (terms + 1)))
