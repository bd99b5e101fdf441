"""Python state that a function reads: what holds the number, and how the function gets there.

A `Holder` has text that makes `h`, text that reads a number from it, and text that changes it. A
`Way` has text that defines `run(x)`, which reads the holder. Each pair is one program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

IMPORTS = """
import array, collections, configparser, contextvars, ctypes, dataclasses, enum, functools
import operator, os, types, typing, weakref
import numpy as np
import gradwalk as gw
"""


class Holder(NamedTuple):
    """What holds a number."""

    name: str
    make: str  # defines h
    read: str  # with {h}: a number
    change: str  # of h


def _object(body: str, base: str = "") -> str:
    return f"class Kind{base}:\n" + "\n".join(f"    {line}" for line in body.splitlines())


_RATE = "def __init__(self):\n    self.rate = 2.0"
_SLOTS = f"__slots__ = ('rate',)\n{_RATE}"
_DATA = "def __init__(self):\n    self.data = {'rate': 2.0}"


_VALUE = _object("def value(self):\n    return 2.0")
_STATIC = _object("@staticmethod\ndef value():\n    return 2.0")
_CLASS = _object("@classmethod\ndef value(cls):\n    return 2.0")
_CLASS_RATE = _object("rate = 2.0\n@classmethod\ndef value(cls):\n    return cls.rate")
_CALL = _object("def __call__(self):\n    return 2.0")


def _special(body: str, read: str, change: str = "h.data['rate'] = 3.0") -> tuple[str, str, str]:
    return f"{_object(f'{_DATA}{chr(10)}{body}')}\nh = Kind()", read, change


_HOLDERS = {
    "list": ("h = [2.0, 5.0]", "{h}[0]", "h[0] = 3.0"),
    "list read in a loop": ("h = [2.0, 5.0]", "sum(v for v in {h})", "h[0] = 3.0"),
    "list that grows": ("h = [2.0, 5.0]", "len({h})", "h.append(1.0)"),
    "dict": ("h = {'rate': 2.0}", "{h}['rate']", "h['rate'] = 3.0"),
    "dict get": ("h = {'rate': 2.0}", "{h}.get('rate')", "h['rate'] = 3.0"),
    "dict default": ("h = {}", "{h}.get('rate', 2.0)", "h['rate'] = 3.0"),
    "dict in order": ("h = {'a': 2.0, 'b': 5.0}", "next(iter({h}.values()))",
                      "h['a'] = h.pop('a')"),
    "int keys": ("h = {1: 2.0}", "{h}[1]", "h[1] = 3.0"),
    "tuple keys": ("h = {(1, 2): 2.0}", "{h}[(1, 2)]", "h[1, 2] = 3.0"),
    "set": ("h = {2.0}", "max({h})", "h.add(3.0)"),
    "deque": ("h = collections.deque([2.0])", "{h}[0]", "h[0] = 3.0"),
    "defaultdict": ("h = collections.defaultdict(float, rate=2.0)", "{h}['rate']",
                    "h['rate'] = 3.0"),
    "OrderedDict": ("h = collections.OrderedDict(rate=2.0)", "{h}['rate']", "h['rate'] = 3.0"),
    "Counter": ("h = collections.Counter('aa')", "{h}['a']", "h.update('a')"),
    "nested": ("h = [[[[[[[[[[2.0]]]]]]]]]]", "{h}[0][0][0][0][0][0][0][0][0][0]",
               "h[0][0][0][0][0][0][0][0][0][0] = 3.0"),
    "nested dicts": ("h = {'a': {'a': {'a': {'a': {'a': {'a': {'a': {'a': {'a': 2.0}}}}}}}}}",
                     "{h}['a']['a']['a']['a']['a']['a']['a']['a']['a']",
                     "h['a']['a']['a']['a']['a']['a']['a']['a']['a'] = 3.0"),
    "nested, flattened": (
        "def flat(t):\n    return sum(map(flat, t)) if isinstance(t, (list, tuple)) else t\n"
        "inner = [2.0]\nh = [[[[[([inner],)]]]]]", "flat({h})", "inner[0] = 3.0"),
    "long list": ("h = [1.0] * 20_000", "sum({h})", "h[19_000] = 3.0"),
    "long dict": ("h = {i: 1.0 for i in range(20_000)}", "sum({h}.values())", "h[19_000] = 3.0"),
    "long list by index": ("h = [1.0] * 20_000\nat = [19_000]", "{h}[at[0]]", "h[19_000] = 3.0"),
    "UserDict": ("h = collections.UserDict(rate=2.0)", "{h}['rate']", "h['rate'] = 3.0"),
    "UserDict get": ("h = collections.UserDict(rate=2.0)", "{h}.get('rate')", "h['rate'] = 3.0"),
    "UserList": ("h = collections.UserList([2.0])", "{h}[0]", "h[0] = 3.0"),
    "UserList in a loop": ("h = collections.UserList([2.0])", "sum({h})", "h[0] = 3.0"),
    "ChainMap": ("inner = {'rate': 2.0}\nh = collections.ChainMap({}, inner)", "{h}['rate']",
                 "inner['rate'] = 3.0"),
    "ChainMap above": ("h = collections.ChainMap({}, {'rate': 2.0})", "{h}['rate']",
                       "h['rate'] = 3.0"),
    "MappingProxyType": ("inner = {'rate': 2.0}\nh = types.MappingProxyType(inner)", "{h}['rate']",
                         "inner['rate'] = 3.0"),
    "MappingProxyType get": ("inner = {'rate': 2.0}\nh = types.MappingProxyType(inner)",
                             "{h}.get('rate')", "inner['rate'] = 3.0"),
    "configparser": ("h = configparser.ConfigParser()\nh['a'] = {'rate': '2.0'}",
                     "float({h}['a']['rate'])", "h['a']['rate'] = '3.0'"),
    "configparser getfloat": ("h = configparser.ConfigParser()\nh['a'] = {'rate': '2.0'}",
                              "{h}.getfloat('a', 'rate')", "h.set('a', 'rate', '3.0')"),
    "namespace": ("h = types.SimpleNamespace(rate=2.0)", "{h}.rate", "h.rate = 3.0"),
    "object": (f"{_object(_RATE)}\nh = Kind()", "{h}.rate", "h.rate = 3.0"),
    "object by getattr": (f"{_object(_RATE)}\nh = Kind()\nname = ''.join(['ra', 'te'])",
                          "getattr({h}, name)", "h.rate = 3.0"),
    "object by vars": (f"{_object(_RATE)}\nh = Kind()", "sum(vars({h}).values())", "h.rate = 3.0"),
    "object by __dict__": (f"{_object(_RATE)}\nh = Kind()", "{h}.__dict__['rate']", "h.rate = 3.0"),
    "attrgetter": (f"{_object(_RATE)}\nh = Kind()\npick = operator.attrgetter('rate')", "pick({h})",
                   "h.rate = 3.0"),
    "itemgetter": ("h = {'rate': 2.0}\npick = operator.itemgetter('rate')", "pick({h})",
                   "h['rate'] = 3.0"),
    "slots": (f"{_object(_SLOTS)}\nh = Kind()", "{h}.rate", "h.rate = 3.0"),
    "slots by getattr": (f"{_object(_SLOTS)}\nh = Kind()\nname = ''.join(['ra', 'te'])",
                         "getattr({h}, name)", "h.rate = 3.0"),
    "list in slots": (f"{_object(_SLOTS)}\nh = Kind()\nh.rate = [2.0]", "sum({h}.rate)",
                      "h.rate[0] = 3.0"),
    "ndarray in slots": (f"{_object(_SLOTS)}\nh = Kind()\nh.rate = np.array([2.0])",
                         "float({h}.rate[0])", "h.rate[0] = 3.0"),
    "dataclass": ("@dataclasses.dataclass\nclass Kind:\n    rate: float = 2.0\nh = Kind()",
                  "{h}.rate", "h.rate = 3.0"),
    "slotted dataclass": (
        "@dataclasses.dataclass(slots=True)\nclass Kind:\n    rate: float = 2.0\nh = Kind()",
        "{h}.rate", "h.rate = 3.0"),
    "dataclass as dict": ("@dataclasses.dataclass\nclass Kind:\n    rate: float = 2.0\nh = Kind()",
                          "dataclasses.asdict({h})['rate']", "h.rate = 3.0"),
    "frozen dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass Kind:\n    rate: float = 2.0\nh = Kind()",
        "{h}.rate", "object.__setattr__(h, 'rate', 3.0)"),
    "named tuple": ("Kind = collections.namedtuple('Kind', 'rates')\nh = Kind([2.0])",
                    "{h}.rates[0]", "h.rates[0] = 3.0"),
    "tuple": ("h = ([2.0], 1)", "{h}[0][0]", "h[0][0] = 3.0"),
    "class attribute": (f"{_object('rate = 2.0')}\nh = Kind()", "{h}.rate", "Kind.rate = 3.0"),
    "class": (f"{_object('rate = 2.0')}\nh = Kind", "{h}.rate", "Kind.rate = 3.0"),
    "class inherited": (f"{_object('rate = 2.0')}\nclass Sub(Kind):\n    pass\nh = Sub()",
                        "{h}.rate", "Sub.rate = 3.0"),
    "instance of the call": (f"{_object('rate = 2.0')}\nh = Kind", "{h}().rate",
                             "Kind.rate = 3.0"),
    "object's class": (f"{_object('rate = 2.0')}\nclass Other:\n    rate = 3.0\nh = Kind()",
                       "{h}.rate", "h.__class__ = Other"),
    "enum": ("class Kind(enum.Enum):\n    RATE = 2.0\nh = Kind.RATE", "{h}.value",
             "h._value_ = 3.0"),
    "ContextVar": ("h = contextvars.ContextVar('h')\nh.set(2.0)", "{h}.get()", "h.set(3.0)"),
    "list in a ContextVar": ("inner = [2.0]\nh = contextvars.ContextVar('h')\nh.set(inner)",
                             "{h}.get()[0]", "inner[0] = 3.0"),
    "weakref": (f"{_object(_RATE)}\nkept = Kind()\nh = weakref.ref(kept)", "{h}().rate",
                "kept.rate = 3.0"),
    "weak proxy": (f"{_object(_RATE)}\nkept = Kind()\nh = weakref.proxy(kept)", "{h}.rate",
                   "kept.rate = 3.0"),
    "weak dictionary": (
        f"{_object(_RATE)}\nkept = Kind()\nh = weakref.WeakValueDictionary(a=kept)",
        "{h}['a'].rate", "kept.rate = 3.0"),
    "array.array": ("h = array.array('d', [2.0])", "{h}[0]", "h[0] = 3.0"),
    "array.array in a loop": ("h = array.array('d', [2.0])", "sum({h})", "h[0] = 3.0"),
    "bytearray": ("h = bytearray([2])", "{h}[0]", "h[0] = 3"),
    "memoryview": ("h = memoryview(bytearray([2]))", "{h}[0]", "h[0] = 3"),
    "ndarray": ("h = np.array([2.0])", "float({h}[0])", "h[0] = 3.0"),
    "ndarray sum": ("h = np.array([2.0])", "float({h}.sum())", "h[0] = 3.0"),
    "ndarray of objects": ("h = np.array([2.0, 'a'], object)", "{h}[0]", "h[0] = 3.0"),
    "ctypes number": ("h = ctypes.c_double(2.0)", "{h}.value", "h.value = 3.0"),
    "ctypes array": ("h = (ctypes.c_double * 2)(2.0)", "{h}[0]", "h[0] = 3.0"),
    "ctypes structure": (
        "class Kind(ctypes.Structure):\n    _fields_ = [('rate', ctypes.c_double)]\nh = Kind(2.0)",
        "{h}.rate", "h.rate = 3.0"),
    "lru_cache": ("state = [2.0]\n@functools.lru_cache\ndef h():\n    return state[0]", "{h}()",
                  "state[0] = 3.0; h.cache_clear()"),
    "partial": ("h = functools.partial(lambda rate: rate, rate=2.0)", "{h}()",
                "h.keywords['rate'] = 3.0"),
    "iterable": _special("def __iter__(self):\n    return iter(self.data.values())", "sum({h})"),
    "item of an object": _special("def __getitem__(self, key):\n    return self.data[key]",
                                  "{h}['rate']"),
    "computed item": _special("def __getitem__(self, key):\n    return self.data[key[1:]]",
                              "{h}['xrate']"),
    "attribute of __getattr__": _special(
        "def __getattr__(self, name):\n    return object.__getattribute__(self, 'data')[name]",
        "{h}.rate"),
    "__getattribute__": (
        _object("def __getattribute__(self, name):\n    return DATA[name]")
        + "\nDATA = {'rate': 2.0}\nh = Kind()", "{h}.rate", "DATA['rate'] = 3.0"),
    "__call__": _special("def __call__(self):\n    return self.data['rate']", "{h}()"),
    "__len__": _special("def __len__(self):\n    return len(self.data)", "len({h})",
                        "h.data['b'] = 1"),
    "__bool__": _special("def __bool__(self):\n    return self.data['rate'] > 2",
                         "(5.0 if {h} else 2.0)"),
    "__float__": _special("def __float__(self):\n    return self.data['rate']", "float({h})"),
    "__index__": _special("def __index__(self):\n    return int(self.data['rate'])",
                          "len(range({h}))"),
    "__contains__": _special("def __contains__(self, key):\n    return key in self.data",
                             "(5.0 if 'b' in {h} else 2.0)", "h.data['b'] = 1"),
    "__eq__": _special("__hash__ = object.__hash__\ndef __eq__(self, other):\n"
                       "    return self.data['rate'] == other", "(5.0 if {h} == 2.0 else 1.0)"),
    "__mul__": _special("def __rmul__(self, other):\n    return other * self.data['rate']",
                        "(1.0 * {h})"),
    "__enter__": _special("def __enter__(self):\n    return self.data['rate']\n"
                          "def __exit__(self, *_):\n    pass\n"
                          "def value(self):\n    with self as rate:\n        return rate",
                          "{h}.value()"),
    "property": _special("@property\ndef rate(self):\n    return self.data['rate']", "{h}.rate"),
    "property of slots": (
        _object("__slots__ = ('_rate',)\n@property\ndef rate(self):\n    return self._rate")
        + "\nh = Kind()\nh._rate = 2.0", "{h}.rate", "h._rate = 3.0"),
    "property replaced": (f"{_object('rate = property(lambda self: 2.0)')}\nh = Kind()", "{h}.rate",
                          "Kind.rate = property(lambda self: 3.0)"),
    "descriptor": (
        "class Rate:\n    def __init__(self):\n        self.value = 2.0\n"
        "    def __get__(self, thing, kind=None):\n        return self.value\n"
        "class Kind:\n    rate = Rate()\nh = Kind()", "{h}.rate", "vars(Kind)['rate'].value = 3.0"),
    "cached_property": (
        "class Kind:\n    @functools.cached_property\n    def rate(self):\n        return 2.0\n"
        "h = Kind()\nh.rate", "{h}.rate", "h.__dict__['rate'] = 3.0"),
    "method": _special("def value(self):\n    return self.data['rate']", "{h}.value()"),
    "method replaced on the class": (
        f"{_VALUE}\nh = Kind()", "{h}.value()",
        "Kind.value = lambda self: 3.0"),
    "method replaced on the object": (
        f"{_VALUE}\nh = Kind()", "{h}.value()",
        "h.value = lambda: 3.0"),
    "method overridden below": (
        f"{_VALUE}\nclass Sub(Kind):\n    pass\nh = Sub()",
        "{h}.value()", "Sub.value = lambda self: 3.0"),
    "static method replaced": (
        f"{_STATIC}\nh = Kind()", "{h}.value()",
        "Kind.value = staticmethod(lambda: 3.0)"),
    "class method replaced": (
        f"{_CLASS}\nh = Kind()", "{h}.value()",
        "Kind.value = classmethod(lambda cls: 3.0)"),
    "class method": (
        f"{_CLASS_RATE}\nh = Kind()",
        "{h}.value()", "Kind.rate = 3.0"),
    "method of super": (
        f"{_VALUE}\nclass Sub(Kind):\n"
        "    def value(self):\n        return super().value()\nh = Sub()",
        "{h}.value()", "Kind.value = lambda self: 3.0"),
    "bases": (
        f"{_VALUE}\nclass Other:\n"
        "    def value(self):\n        return 3.0\nclass Sub(Kind):\n"
        "    def value(self):\n        return super().value()\nh = Sub()",
        "{h}.value()", "Sub.__bases__ = (Other,)"),
    "special method replaced": (
        f"{_CALL}\nh = Kind()", "{h}()",
        "Kind.__call__ = lambda self: 3.0"),
    "function's defaults": ("def h(rate=2.0):\n    return rate", "{h}()",
                            "h.__defaults__ = (3.0,)"),
    "function's keyword defaults": ("def h(*, rate=2.0):\n    return rate", "{h}()",
                                    "h.__kwdefaults__ = {'rate': 3.0}"),
    "in keyword defaults": ("def h(*, rate=2.0):\n    return rate", "{h}()",
                            "h.__kwdefaults__['rate'] = 3.0"),
    "list as default": ("def h(rates=[2.0]):\n    return rates[0]", "{h}()",
                        "h.__defaults__[0][0] = 3.0"),
    "function's code": ("def h():\n    return 2.0", "{h}()",
                        "h.__code__ = (lambda: 3.0).__code__"),
    "function's attribute": ("def h():\n    return h.rate\nh.rate = 2.0", "{h}()", "h.rate = 3.0"),
    "closure": ("def outer():\n    rate = 2.0\n    def read():\n        return rate\n"
                "    def write(new):\n        nonlocal rate\n        rate = new\n"
                "    return read, write\nh, write = outer()", "{h}()", "write(3.0)"),
    "closure in a closure": (
        "def outer():\n    rate = 2.0\n    def inner():\n        def read():\n"
        "            return rate\n        return read\n"
        "    def write(new):\n        nonlocal rate\n        rate = new\n"
        "    return inner(), write\nh, write = outer()", "{h}()", "write(3.0)"),
    "decorated": (
        "state = [2.0]\ndef twice(f):\n    @functools.wraps(f)\n    def g():\n"
        "        return 2 * f()\n    return g\n@twice\ndef h():\n    return state[0]", "{h}()",
        "state[0] = 3.0"),
    "decorated without wraps": (
        "state = [2.0]\ndef twice(f):\n    return lambda: 2 * f()\n"
        "@twice\ndef h():\n    return state[0]", "{h}()", "state[0] = 3.0"),
    "class as decorator": (
        "state = [2.0]\nclass twice:\n    def __init__(self, f):\n        self.f = f\n"
        "    def __call__(self):\n        return 2 * self.f()\n"
        "@twice\ndef h():\n    return state[0]", "{h}()", "state[0] = 3.0"),
    "generator": ("state = [2.0]\ndef h():\n    yield state[0]", "sum({h}())", "state[0] = 3.0"),
    "global function": ("def value():\n    return 2.0\ndef h():\n    return value()", "{h}()",
                        "value = lambda: 3.0"),
    "globals()": ("value = 2.0\ndef h():\n    return globals()['value']", "{h}()", "value = 3.0"),
    "module": ("h = types.ModuleType('settings_of_a_test')\nh.rate = 2.0", "{h}.rate",
               "h.rate = 3.0"),
    "module's __getattr__": (
        "inner = {'rate': 2.0}\nh = types.ModuleType('settings_of_a_test')\n"
        "h.__getattr__ = inner.__getitem__", "{h}.rate", "inner['rate'] = 3.0"),
    "environment": ("os.environ['GRADWALK_ATTACK'] = '2'\nh = os.environ",
                    "float({h}['GRADWALK_ATTACK'])", "h['GRADWALK_ATTACK'] = '3'"),
    "environment get": ("os.environ['GRADWALK_ATTACK'] = '2'\nh = os.environ",
                        "float({h}.get('GRADWALK_ATTACK'))", "h['GRADWALK_ATTACK'] = '3'"),
    "getenv": ("os.environ['GRADWALK_ATTACK'] = '2'\nh = os.getenv",
               "float({h}('GRADWALK_ATTACK'))", "os.environ['GRADWALK_ATTACK'] = '3'"),
    "linked list": (
        _object("def __init__(self, rate, next):\n    self.rate, self.next = rate, next")
        + "\nlast = Kind(2.0, None)\nh = last\nfor _ in range(12):\n    h = Kind(1.0, h)\n"
        "def total(n):\n    t = 0.0\n    while n is not None:\n"
        "        t, n = t + n.rate, n.next\n    return t", "total({h})", "last.rate = 3.0"),
    "dict subclass": (
        "class Kind(dict):\n    def __missing__(self, key):\n        return STATE[0]\n"
        "STATE = [2.0]\nh = Kind()", "{h}['rate']", "STATE[0] = 3.0"),
    "list subclass": ("class Kind(list):\n    pass\nh = Kind([2.0])", "{h}[0]", "h[0] = 3.0"),
    "attribute of a list subclass": ("class Kind(list):\n    pass\nh = Kind()\nh.rate = 2.0",
                                     "{h}.rate", "h.rate = 3.0"),
    "module of a network": (
        "class Kind(gw.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rate = 2.0\nh = Kind()", "{h}.rate", "h.rate = 3.0"),
    "forward replaced": (
        "class Kind(gw.nn.Module):\n    def forward(self, x):\n        return x * 2.0\nh = Kind()",
        "{h}(gw.ones(()))", "Kind.forward = lambda self, x: x * 3.0"),
    "forward replaced on the module": (
        "class Kind(gw.nn.Module):\n    def forward(self, x):\n        return x * 2.0\nh = Kind()",
        "{h}(gw.ones(()))", "h.forward = lambda x: x * 3.0"),
}  # fmt: skip
HOLDERS = [Holder(name, *texts) for name, texts in _HOLDERS.items()]

# How a function gets to the holder: {read(...)} becomes the text that reads it there.
_WAYS = {
    "global": "def run(x):\n    return x * READ(h)",
    "closure": "def outer():\n    held = h\n    return lambda x: x * READ(held)\nrun = outer()",
    "attribute": "box = types.SimpleNamespace(h=h)\ndef run(x):\n    return x * READ(box.h)",
    "self": "class Box:\n    def __init__(self):\n        self.h = h\n    def run(self, x):\n"
            "        return x * READ(self.h)\nrun = Box().run",
    "class attribute": "class Box:\n    pass\nBox.h = staticmethod(h) if "
                       "hasattr(type(h), '__get__') else h\nbox = Box()\n"
                       "def run(x):\n    return x * READ(box.h)",
    "slots": "class Box:\n    __slots__ = ('h',)\nbox = Box()\nbox.h = h\n"
             "def run(x):\n    return x * READ(box.h)",
    "slotted data class, passed on":
        "@dataclasses.dataclass(slots=True)\nclass Box:\n    h: object\nbox = Box(h)\n"
        "def use(b):\n    return READ(b.h)\ndef run(x):\n    return x * use(box)",
    "list": "things = [h]\ndef run(x):\n    return x * READ(things[0])",
    "loop": "things = [h]\ndef run(x):\n    for one in things:\n        x = x * READ(one)\n"
            "    return x",
    "nested list": "things = [[[[[[[h]]]]]]]\ndef run(x):\n"
                   "    return x * READ(things[0][0][0][0][0][0][0])",
    "dict": "things = {'h': h}\ndef run(x):\n    return x * READ(things['h'])",
    "tuple": "things = (1, (h,))\ndef run(x):\n    return x * READ(things[1][0])",
    "named tuple": "Box = collections.namedtuple('Box', 'h')\nbox = Box(h)\n"
                   "def run(x):\n    return x * READ(box.h)",
    "passed on": "def use(x, given):\n    return x * READ(given)\n"
                 "def run(x):\n    return use(x, h)",
    "passed on in a list": "def use(x, given):\n    return x * READ(given[0])\n"
                           "things = [h]\ndef run(x):\n    return use(x, things)",
    "returned": "def get():\n    return h\ndef run(x):\n    return x * READ(get())",
    "default": "def run(x, given=h):\n    return x * READ(given)",
    "keyword default": "def run(x, *, given=h):\n    return x * READ(given)",
    "partial": "def use(x, given):\n    return x * READ(given)\n"
               "run = functools.partial(use, given=h)",
    "generator": "def run(x):\n    return sum(x * READ(one) for one in (h,))",
    "mapping proxy": "things = types.MappingProxyType({'h': h})\n"
                     "def run(x):\n    return x * READ(things['h'])",
    "UserDict": "things = collections.UserDict(h=h)\n"
                "def run(x):\n    return x * READ(things['h'])",
    "ContextVar": "held = contextvars.ContextVar('held')\nheld.set(h)\n"
                  "def run(x):\n    return x * READ(held.get())",
    "property": "class Box:\n    h = property(lambda self: h)\nbox = Box()\n"
                "def run(x):\n    return x * READ(box.h)",
    "__getattr__": "class Box:\n    def __getattr__(self, name):\n"
                   "        if name != 'h':\n            raise AttributeError(name)\n"
                   "        return h\nbox = Box()\n"
                   "def run(x):\n    return x * READ(box.h)",
    "decorated": "def wrap(f):\n    @functools.wraps(f)\n    def inner(x):\n"
                 "        return f(x)\n    return inner\n"
                 "@wrap\ndef run(x):\n    return x * READ(h)",
    "module of a network": "class Net(gw.nn.Module):\n    def __init__(self):\n"
                           "        super().__init__()\n        self.h = h\n"
                           "    def forward(self, x):\n        return x * READ(self.h)\n"
                           "net = Net()\ndef run(x):\n    return net(x)",
    "argument": "def run(x, given):\n    return x * READ(given)",
    "argument in a list": "def run(x, given):\n    return x * READ(given[0])",
    "any argument": "def run(x, *given):\n    return x * READ(given[0])",
    "keyword": "def run(x, **given):\n    return x * READ(given['given'])",
}  # fmt: skip


class Program(NamedTuple):
    """A function, how to call it, and the change."""

    name: str
    text: str
    call: str
    change: str

    def __str__(self) -> str:
        return self.name

    def names(self) -> dict[str, Any]:
        """The namespace in which the text has run."""
        names: dict[str, Any] = {"__name__": __name__}
        exec(compile(self.text, f"<{self.name}>", "exec"), names)
        return names


ARGUMENTS = {
    "argument": "run(x, h)", "argument in a list": "run(x, [h])", "any argument": "run(x, h)",
    "keyword": "run(x, given=h)",
}  # fmt: skip


def programs() -> Iterator[Program]:
    """Every holder, reached in every way."""
    for holder in HOLDERS:
        for way, text in _WAYS.items():
            if holder.name.startswith("long") and way in ARGUMENTS:
                continue  # 20,000 arguments
            if holder.name == "__getattribute__" and way == "module of a network":
                continue  # no module takes it
            before, _, rest = text.partition("READ(")
            inner, _, after = rest.partition(")")
            while inner.count("(") > inner.count(")"):
                more, _, after = after.partition(")")
                inner += ")" + more
            body = before + holder.read.format(h=inner) + after
            yield Program(
                f"{holder.name}: {way}",
                f"{IMPORTS}\n{holder.make}\n{body}",
                ARGUMENTS.get(way, "run(x)"),
                holder.change,
            )
