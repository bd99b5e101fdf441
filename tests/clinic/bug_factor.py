"""A backward that is twice too large."""

import gradwalk as gw

NAMED, OP = "a constant factor", "that of op 'cubic'"


def sick():
    """3x² was meant."""
    cubic = gw.elementwise(
        "cubic",
        lambda x: x * x * x,
        partials=[lambda x: 6 * x * x],
    )
    gw.manual_seed(0)
    return (lambda x: cubic(x).tanh()), gw.rand(3, dtype=gw.float64, requires_grad=True)


def healthy():
    """The same, but for one line."""
    cubic = gw.elementwise(
        "cubic",
        lambda x: x * x * x,
        partials=[lambda x: 3 * x * x],
    )
    gw.manual_seed(0)
    return (lambda x: cubic(x).tanh()), gw.rand(3, dtype=gw.float64, requires_grad=True)
