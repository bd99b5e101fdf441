"""Source lines: the user's line, also through layers of our own code."""

from pathlib import Path

import pytest

import gradwalk as gw


def test_a_tensor_knows_the_line_that_made_it() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    made = gw.softmax(x * 2, 0)
    assert x.line is not None
    assert made.line is not None
    assert x.line.text == "x = gw.tensor([1.0], requires_grad=True)"
    assert made.line.text == "made = gw.softmax(x * 2, 0)"
    assert made.line.file == __file__
    assert made.line.function == "test_a_tensor_knows_the_line_that_made_it"
    assert str(made.line).startswith("test_source.py:")


def test_a_layer_is_not_the_users_line() -> None:
    layer = gw.nn.Linear(2, 3)
    out = layer(gw.zeros(1, 2))
    assert out.line is not None
    assert out.line.text == "out = layer(gw.zeros(1, 2))"


def test_values_know_their_lines() -> None:
    a = gw.Value(1.0)
    b = 2 * a
    c = gw.tanh(b)
    assert [v.line.text for v in (a, b, c) if v.line] == [
        "a = gw.Value(1.0)",
        "b = 2 * a",
        "c = gw.tanh(b)",
    ]


def test_switched_off_nothing_is_recorded() -> None:
    gw.set_source_lines(False)
    try:
        x = gw.tensor([1.0], requires_grad=True)
        made = (x * 2, gw.softmax(x, 0), gw.Value(1.0) * 2)
    finally:
        gw.set_source_lines(True)
    assert [m.line for m in made] == [None, None, None]
    assert x.line is None
    again = x * 2
    assert again.line is not None


def test_switched_off_errors_still_name_the_tensor() -> None:
    gw.set_source_lines(False)
    try:
        x = gw.ones(3, requires_grad=True)
        with pytest.raises(gw.AutogradError, match=r"(?s)of shape \(3,\).*an unrecorded line.*Fix"):
            (x * 2).backward()
    finally:
        gw.set_source_lines(True)


def test_only_files_inside_the_package_are_ours() -> None:
    """Not those of a neighbour with a longer name."""
    neighbour = str(Path(gw.__file__).parent) + "_demo/script.py"
    names: dict[str, gw.Tensor] = {}
    exec(compile("import gradwalk\nx = gradwalk.ones(2) * 3", neighbour, "exec"), names)
    line = names["x"].line
    assert line is not None
    assert (line.file, line.line, str(line)) == (neighbour, 2, "script.py:2")
