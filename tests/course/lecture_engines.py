"""Mistakes of people who follow the lecture: an engine as it is built there, with one mistake each.

The lecture's engine recurses and keeps its inner gradients, so a check of it reports these two
beside the mistake; a wrong walk hides the second. Where a mistake was seen stands beside it
(karpathy/micrograd and others on GitHub).
"""

LECTURE = """\
import math


class Value:
    def __init__(self, data, inputs=(), op=""):
        self.data = data
        self.grad = 0
        self._backward = lambda: None
        self._prev = set(inputs)
        self._op = op

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data + other.data, (self, other), "+")

        def _backward():
            self.grad += out.grad
            other.grad += out.grad

        out._backward = _backward
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data * other.data, (self, other), "*")

        def _backward():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out._backward = _backward
        return out

    def __pow__(self, n):
        out = Value(self.data**n, (self,), "**")

        def _backward():
            self.grad += n * self.data ** (n - 1) * out.grad

        out._backward = _backward
        return out

    def exp(self):
        out = Value(math.exp(self.data), (self,), "exp")

        def _backward():
            self.grad += out.data * out.grad

        out._backward = _backward
        return out

    def tanh(self):
        t = (math.exp(2 * self.data) - 1) / (math.exp(2 * self.data) + 1)
        out = Value(t, (self,), "tanh")

        def _backward():
            self.grad += (1 - t**2) * out.grad

        out._backward = _backward
        return out

    def relu(self):
        out = Value(0 if self.data < 0 else self.data, (self,), "relu")

        def _backward():
            self.grad += (out.data > 0) * out.grad

        out._backward = _backward
        return out

    def backward(self):
        topo = []
        visited = set()

        def build(v):
            if v not in visited:
                visited.add(v)
                for i in v._prev:
                    build(i)
                topo.append(v)

        build(self)
        self.grad = 1
        for v in reversed(topo):
            v._backward()

    def __neg__(self):
        return self * -1

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return other + (-self)

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, other):
        return other * self**-1
"""
OF_THE_LECTURE = ("stale", "recursion-limit")

_EXP = "self.grad += out.data * out.grad"
_ORDER = LECTURE[LECTURE.index("        topo = []") : LECTURE.index("    def __neg__")]
_TANH = LECTURE[LECTURE.index("        t = (math") : LECTURE.index("    def relu")]

# A mistake: (what is replaced, by what), and what must be named, with the lecture's own two or not.
MISTAKES: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    # -- the walk
    "no reversed (the issue)": (
        [("reversed(topo)", "topo")],
        ["before-complete", "recursion-limit"],
    ),
    "post-order that pushes (micrograd #96)": (
        [("topo.append(v)", "v._backward()"), ("        build(self)\n        self.grad = 1",
          "        self.grad = 1\n        build(self)"), ("reversed(topo)", "topo")],
        ["before-complete", "recursion-limit"],
    ),
    "no visited": (
        [("if v not in visited:", "if True:")],
        ["plain-recursion"],
    ),
    "calls itself for each input (micrograd #21, #64, #68)": (
        [(_ORDER, "        if not self._op or self.grad == 0:\n            self.grad = 1\n"
          "        self.down()\n\n    def down(self):\n        self._backward()\n"
          "        for i in self._prev:\n            i.down()\n\n")],
        ["plain-recursion"],
    ),
    "pushes, calls, clears (micrograd #81)": (
        [(_ORDER, "        self.grad = 1\n        self.down()\n\n    def down(self):\n"
          "        self._backward()\n        if self._prev:\n            self.grad = 0\n"
          "        for i in self._prev:\n            i.down()\n\n")],
        ["no-inner-gradients", "recursion-limit"],
    ),
    "drops its function after one call (TrenTorch #182)": (
        [(_ORDER, "        self.grad = 1\n        self.down(set())\n\n    def down(self, done):\n"
          "        if self in done:\n            return\n        done.add(self)\n"
          "        self._backward()\n        for i in self._prev:\n            i.down(done)\n\n")],
        ["before-complete", "recursion-limit"],
    ),
    "the set of nodes seen is a default argument": (
        [("def backward(self):", "def backward(self, visited=set()):"),
         ("        visited = set()\n", "")],
        ["second-does-nothing", "recursion-limit"],
    ),
    "only leaves keep a gradient, as in PyTorch": (
        [("            v._backward()", "            v._backward()\n            if v._prev:\n"
          "                v.grad = 0")],
        ["no-inner-gradients", "recursion-limit"],
    ),
    "no seed": ([("        self.grad = 1\n", "")], ["no-seed", "recursion-limit"]),
    "the seed comes after the walk": (
        [("        self.grad = 1\n", ""),
         ("            v._backward()\n", "            v._backward()\n        self.grad = 1\n")],
        ["root-passes-nothing", "recursion-limit"],
    ),
    "the root's function is called before the walk too": (
        [("        self.grad = 1\n", "        self.grad = 1\n        self._backward()\n")],
        ["visits-twice", "recursion-limit"],
    ),
    "every function is called twice": (
        [("            v._backward()\n", "            v._backward()\n            v._backward()\n")],
        ["visits-twice", "recursion-limit"],
    ),
    "backward calls backward of the inputs": (
        [(_ORDER, "        self.grad = 1\n        self._backward()\n        for i in self._prev:\n"
          "            i.backward()\n\n")],
        ["every-node-begins", "recursion-limit"],
    ),
    "every node on the way is set to 1": (
        [("        self.grad = 1\n", ""),
         ("            v._backward()", "            v.grad = 1\n            v._backward()")],
        ["every-node-begins", "recursion-limit"],
    ),
    "the list of nodes belongs to the class": (
        [("        topo = []\n", "        topo = self._topo\n"),
         ("    def __add__", "    _topo = []\n\n    def __add__")],
        ["again", "recursion-limit"],
    ),
    "the nodes seen are numbers": (
        [("if v not in visited:", "if v.data not in visited:"),
         ("visited.add(v)", "visited.add(v.data)")],
        ["equal-numbers"],
    ),
    # -- one operation
    "= in every operation (dev.to)": (
        [("self.grad += ", "self.grad = "), ("other.grad += ", "other.grad = ")],
        ["overwrites", "recursion-limit"],
    ),
    "= for the second input only": (
        [("other.grad += ", "other.grad = ")],
        ["overwrites", "recursion-limit"],
    ),
    "= for the second input of add only": (
        [("other.grad += out.grad", "other.grad = out.grad")],
        ["overwrites", "recursion-limit"],
    ),
    "mul does not know its second input": (
        [('self.data * other.data, (self, other), "*"', 'self.data * other.data, (self,), "*"')],
        ["unknown-inputs", "recursion-limit"],
    ),
    "mul with the Value for its number": (
        [("self.grad += other.data * out.grad", "self.grad = self.grad + other * out.grad")],
        ["gradient-is-value", "recursion-limit"],
    ),
    "= in exp only": (
        [(_EXP, _EXP.replace("+=", "="))],
        ["overwrites", *OF_THE_LECTURE],
    ),
    "exp without out.grad": (
        [(_EXP, "self.grad += out.data")],
        ["local-not-total", *OF_THE_LECTURE],
    ),
    "mul without out.grad": (
        [("self.grad += other.data * out.grad", "self.grad += other.data"),
         ("other.grad += self.data * out.grad", "other.grad += self.data")],
        ["local-not-total", "recursion-limit"],
    ),
    "tanh and relu without out.grad": (
        [("(1 - t**2) * out.grad", "1 - t**2"), ("(out.data > 0) * out.grad", "(out.data > 0)")],
        ["local-not-total", *OF_THE_LECTURE],
    ),
    "tanh does not know its input": (
        [('Value(t, (self,), "tanh")', "Value(t)")],
        ["unknown-inputs", *OF_THE_LECTURE],
    ),
    "mul does not know its inputs": (
        [('self.data * other.data, (self, other), "*"', "self.data * other.data")],
        ["unknown-inputs"],
    ),
    "sub has no backward (raghavsridharan)": (
        [("return self + (-other)", "other = other if isinstance(other, Value) else Value(other)\n"
          '        return Value(self.data - other.data, (self, other), "-")')],
        ["derivative-sub", *OF_THE_LECTURE],
    ),
    "exp's function is not stored": (
        [(_EXP + "\n\n        out._backward = _backward", _EXP)],
        ["derivative-exp", *OF_THE_LECTURE],
    ),
    "exp's derivative of the gradient": (
        [(_EXP, "self.grad += math.exp(out.grad)")],
        ["derivative-exp", *OF_THE_LECTURE],
    ),
    "the power is not lowered": (
        [("(n - 1)", "n")],
        ["derivative-power", *OF_THE_LECTURE],
    ),
    "tanh of the input": (
        [("1 - t**2", "1 - self.data**2")],
        ["derivative-tanh", *OF_THE_LECTURE],
    ),
    "relu with >= of the input": (
        [("out.data > 0", "self.data >= 0")],
        ["derivative-relu", *OF_THE_LECTURE],
    ),
    "relu with >= of the output": (
        [("out.data > 0", "out.data >= 0")],
        ["derivative-relu", *OF_THE_LECTURE],
    ),
    "tanh without brackets around its derivative": (
        [("(1 - t**2) * out.grad", "1 - t**2 * out.grad")],
        ["upstream", *OF_THE_LECTURE],
    ),
    "the power is raised": ([("(n - 1)", "(n + 1)")], ["derivative-power", *OF_THE_LECTURE]),
    "the root is left out": ([("reversed(topo)", "reversed(topo[:-1])")],
                             ["root-passes-nothing", "recursion-limit"]),
    "mul takes its own gradient": (
        [("other.data * out.grad", "other.data * self.grad")],
        ["derivative-mul", "recursion-limit"],
    ),
    "mul changes its input": (
        [('out = Value(self.data * other.data, (self, other), "*")',
          'self.data *= other.data\n        out = Value(self.data, (self, other), "*")')],
        ["data", "recursion-limit"],
    ),
    "gradients begin with 1": (
        [("self.grad = 0", "self.grad = 1")], ["first-gradient", "recursion-limit"],
    ),
    "nodes are compared by their numbers": (
        [("    def __add__", "    def __eq__(self, other):\n"
          "        return self.data == other.data\n\n"
          "    def __hash__(self):\n        return hash(self.data)\n\n    def __add__")],
        ["equal-numbers"],
    ),
    "sub exchanged": ([("return self + (-other)", "return -self + other")],
                      ["value-sub", *OF_THE_LECTURE]),
    "neg without its sign": ([("return self * -1", "return self * 1")],
                             ["value-neg", *OF_THE_LECTURE]),
    # -- values and exceptions
    "rsub exchanged": (
        [("return other + (-self)", "return self - other")],
        ["value-rsub", *OF_THE_LECTURE],
    ),
    "rtruediv exchanged": (
        [("return other * self**-1", "return self / other")],
        ["value-rdiv", *OF_THE_LECTURE],
    ),
    "// for /": (
        [("return self * other**-1", "other = other if isinstance(other, Value) else Value(other)\n"
          "        out = self * other**-1\n        out.data = self.data // other.data\n"
          "        return out")],
        ["value-div", *OF_THE_LECTURE],
    ),
    "neg gives a number (raghavsridharan)": (
        [("return self * -1", "return self.data * -1")],
        ["returns", *OF_THE_LECTURE],
    ),
    "exp returns nothing": (
        [(_EXP + "\n\n        out._backward = _backward\n        return out",
          _EXP + "\n\n        out._backward = _backward")],
        ["returns", *OF_THE_LECTURE],
    ),
    "radd calls itself (mshahoyi)": (
        [("        return self + other\n", "        return other + self\n")],
        ["calls-itself", *OF_THE_LECTURE],
    ),
    "__div__, as in Python 2 (raghavsridharan)": (
        [("__truediv__", "__div__")],
        ["missing", *OF_THE_LECTURE],
    ),
    "calls _backward when it stores it": (
        [("out._backward = _backward\n", "out._backward = _backward()\n")],
        ["called-at-once", "recursion-limit"],
    ),
    "a dataclass, which compares by number": (
        [("    def __add__", "    def __eq__(self, other):\n"
          "        return self.data == other.data\n\n    def __add__")],
        ["unhashable"],
    ),
    "wraps what is a Value already": (
        [("other if isinstance(other, Value) else Value(other)", "Value(other)")],
        ["wraps-values", "recursion-limit"],
    ),
    "methods made in a loop": (
        [(LECTURE[LECTURE.index("    def exp(self)") : LECTURE.index("    def backward")], ""),
         ("    def __neg__", """\
    for name, f, d in [
        ("exp", math.exp, lambda x, y: y),
        ("tanh", math.tanh, lambda x, y: 1 - y * y),
        ("relu", lambda x: max(0.0, x), lambda x, y: float(x > 0)),
    ]:
        def method(self, _name=name):
            out = Value(functions[-1][0](self.data), (self,))

            def _backward():
                self.grad += functions[-1][1](self.data, out.data) * out.grad

            out._backward = _backward
            return out

        functions.append((f, d))
        locals()[name] = method

    def __neg__"""), ("class Value:", "functions = []\n\n\nclass Value:")],
        ["loop-variable", *OF_THE_LECTURE],
    ),
}  # fmt: skip


def lecture(*names: str) -> str:
    """The lecture's engine with these mistakes."""
    source = LECTURE
    for name in names:
        for old, new in MISTAKES[name][0]:
            assert old in source, (name, old)
            source = source.replace(old, new)
    return source
