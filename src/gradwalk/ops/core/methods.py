"""The classes that carry operators and methods made from ops and registrations.

`python -m tools.stubs` writes methods.pyi, which says what they are, from the same registrations.
"""


class OperatorMethods:
    """The operators of Python that are an op each."""

    __slots__ = ()


class Methods:
    """The methods of Tensor and Symbol that are an op, or a function made of ops."""

    __slots__ = ()


class InPlaceMethods:
    """The methods of Tensor with a trailing underscore."""

    __slots__ = ()
