"""What a test file gets when it imports `torch`: gradwalk under PyTorch's names."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.testing
from torch.testing._internal import common_utils

import gradwalk as gw
from gradwalk.graph.storage import UntypedStorage
from gradwalk.sparse import CompressedRows, SparseTensor


class MissingName(Exception):
    """The test uses a name that gradwalk does not have."""


class Missing:
    """Stands for a name that gradwalk lacks; any use of it raises MissingName."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def _raise(self, *args: Any, **keywords: Any) -> Any:
        if LOADING:  # a decorator, or a value that some test will use
            return args[0] if len(args) == 1 and callable(args[0]) else self
        raise MissingName(self._name)

    __call__ = __getitem__ = __enter__ = __len__ = _raise

    def __iter__(self) -> Iterator[Any]:
        if LOADING:
            return iter(())
        raise MissingName(self._name)

    def __radd__(self, other: Any) -> Any:
        return other

    __add__ = __or__ = __ror__ = __radd__

    def __index__(self) -> int:
        return 0

    def __instancecheck__(self, thing: Any) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def __getattr__(self, name: str) -> Any:
        if name in ("__all__", "__name__"):
            return () if name == "__all__" else self._name.rpartition(".")[2]
        if name.startswith("__"):
            raise AttributeError(name)
        if LOADING:
            return Missing(f"{self._name}.{name}")
        raise MissingName(f"{self._name}.{name}")

    def __mro_entries__(self, bases: Any) -> Any:  # a class of the test file may inherit from it
        return (FromMissing,)


class FromMissing:
    """In place of a missing class that a class of the test file inherits from."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        if not LOADING:
            raise MissingName(f"a base of {type(self).__name__}")

    def __getattr__(self, name: str) -> Any:
        if LOADING and not name.startswith("__"):
            return Missing(name)
        raise AttributeError(name)


LACKED: dict[torch.dtype, Missing] = {}  # tests compare dtypes by identity
LOADING: list[str] = []  # the file whose decorators and classes are being evaluated

LAYOUTS = (gw.strided, gw.sparse_coo, gw.sparse_csr)
LACKED_LAYOUTS = ("sparse_csc", "sparse_bsr", "sparse_bsc")
EQUIVALENT: dict[str, Any] = {
    "torch.Size": gw.Size,
    "torch.dtype": np.dtype,
    "torch.inf": float("inf"),
    "torch.nan": float("nan"),
    "torch.version": torch.version,
    "torch.__version__": torch.__version__,
    "torch.backends": torch.backends,
    "torch.manual_seed": lambda seed: gw.manual_seed(seed, like="torch"),
    "torch.get_default_dtype": lambda: gw.get_default_dtype(),
}
DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}


class Alias(types.ModuleType):
    """A namespace of PyTorch whose names are gradwalk's."""

    def __init__(self, name: str, ours: Any) -> None:
        super().__init__(name)
        self.__dict__["_ours"] = ours

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if full in EQUIVALENT:
            return EQUIVALENT[full]
        if name == "__all__":
            return getattr(self._ours, name, [n for n in dir(self._ours) if n[0] != "_"])
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            if name in ("chalf", "complex32"):  # a name only
                raise AttributeError(name)
            found = getattr(self._ours, name)
        except AttributeError:
            try:
                found = importlib.import_module(f"{self._ours.__name__}.{name}")
            except (ImportError, AttributeError):
                # Test files list dtypes that gradwalk lacks beside others, and skip them below.
                real = getattr(torch, name, None)
                if isinstance(real, torch.dtype):
                    return LACKED.setdefault(real, Missing(full))
                if LOADING:
                    return Missing(full)
                raise AttributeError(f"gradwalk has no {full}") from None
        return Alias(full, found) if isinstance(found, types.ModuleType) else found

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            raise MissingName(f"assignment to {self.__name__}.{name}")
        super().__setattr__(name, value)


ROOT = Alias("torch", gw)


def resolve(name: str) -> Any:
    """The object that a dotted name of PyTorch means here; a Missing if there is none."""
    found: Any = ROOT
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except (AttributeError, MissingName):
            return Missing(name)
    return found


def to_torch(thing: Any) -> Any:
    """Nested containers of our tensors as PyTorch's."""
    if isinstance(thing, CompressedRows):
        return torch.sparse_csr_tensor(*to_torch(thing._parts()))
    if isinstance(thing, SparseTensor):
        parts = to_torch((thing._indices(), thing._values()))
        return torch.sparse_coo_tensor(
            *parts, tuple(thing.shape), is_coalesced=thing.is_coalesced()
        )
    if isinstance(thing, gw.Tensor):
        array = thing.detach().cpu().numpy()
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.astype(np.float32)).bfloat16()
        return torch.from_numpy(np.array(array))
    if isinstance(thing, str) and thing in LAYOUTS:
        return getattr(torch, thing.removeprefix("torch."))
    if thing is np.dtype:
        return torch.dtype
    if isinstance(thing, UntypedStorage):
        return thing.tolist()
    if isinstance(thing, type) and issubclass(thing, np.generic):
        thing = np.dtype(thing)
    if isinstance(thing, np.dtype):
        return DTYPES.get(thing.name, thing)
    if isinstance(thing, Mapping):
        return {key: to_torch(value) for key, value in thing.items()}
    if isinstance(thing, gw.nn.Sequential | gw.nn.ModuleList | gw.nn.ParameterList):
        return list(map(to_torch, thing))
    if isinstance(thing, gw.nn.ParameterDict):
        return {key: to_torch(thing[key]) for key in thing}
    if isinstance(thing, list | tuple):
        return (
            type(thing)(*map(to_torch, thing))
            if hasattr(thing, "_fields")
            else type(thing)(map(to_torch, thing))
        )
    return thing


def to_ours(thing: torch.Tensor) -> Any:
    if thing.layout == torch.sparse_csr:
        if thing.ndim != 2:
            raise MissingName("batches of matrices with compressed rows")
        parts = thing.crow_indices(), thing.col_indices(), thing.values()
        return gw.sparse_csr_tensor(*map(to_ours, parts), tuple(thing.shape))
    if thing.is_sparse:
        parts = thing._indices(), thing._values()
        made = gw.sparse_coo_tensor(*map(to_ours, parts), tuple(thing.shape))
        return made._coalesced_(thing.is_coalesced())
    if thing.dtype == torch.bfloat16:
        return gw.tensor(thing.detach().float().numpy()).to(gw.bfloat16)
    return gw.from_numpy(thing.detach().clone().numpy())


def dtype_of_torch(dtype: Any) -> Any:
    return DTYPES[dtype.name] if isinstance(dtype, np.dtype) else dtype


def dtype_of_ours(dtype: Any) -> Any:
    name = str(dtype).removeprefix("torch.")
    return getattr(gw, name, Missing(f"torch.{name}"))


def make_tensor(*shape: Any, dtype: Any, device: Any = "cpu", **keywords: Any) -> Any:
    requires_grad = keywords.pop("requires_grad", False)
    keywords.pop("memory_format", None)
    made = to_ours(
        torch.testing.make_tensor(*shape, dtype=dtype_of_torch(dtype), device="cpu", **keywords)
    )
    return made.requires_grad_() if requires_grad else made


def noncontiguous_like(tensor: Any) -> Any:
    """A copy whose elements lie two places apart."""
    twice = np.repeat(tensor.detach().numpy()[..., None], 2, -1)
    return gw.from_numpy(twice[..., 0]).requires_grad_(tensor.requires_grad)


def from_torch(thing: Any) -> Any:
    """Nested containers of PyTorch's tensors as ours."""
    if isinstance(thing, torch.Tensor):
        return to_ours(thing)
    if isinstance(thing, torch.dtype):
        return dtype_of_ours(thing)
    if isinstance(thing, dict):
        return {from_torch(key): from_torch(value) for key, value in thing.items()}
    if isinstance(thing, torch.Size):
        return tuple(thing)
    return type(thing)(map(from_torch, thing)) if isinstance(thing, list | tuple) else thing


def translated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A helper of PyTorch's tests that makes tensors, for our dtypes and tensors."""

    def call(*args: Any, **keywords: Any) -> Any:
        return from_torch(function(*to_torch(args), **to_torch(keywords)))

    return call


FACTS: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "is_complex": lambda dtype: dtype.kind == "c",
    "is_floating_point": lambda dtype: dtype.kind == "f" or dtype.name == "bfloat16",
    "is_signed": lambda dtype: dtype.kind not in "ub",
    "to_complex": lambda dtype: dtype_of_ours(dtype_of_torch(dtype).to_complex()),
    "to_real": lambda dtype: dtype_of_ours(dtype_of_torch(dtype).to_real()),
}


def fact_of(thing: Any, name: str) -> Any:
    """An attribute that PyTorch's dtypes have and NumPy's lack; of a class, perhaps a Missing."""
    if name not in FACTS:
        return getattr(thing, name, Missing(f"torch.Tensor.{name}"))
    fact = FACTS[name]
    if isinstance(thing, np.dtype):
        known = fact(thing)
        return (lambda: known) if name.startswith("to_") else known
    return getattr(thing, name)


class DtypeFacts(ast.NodeTransformer):
    """`dtype.is_complex` in a test file asks `fact_of`; `except RuntimeError` expects any error of
    ours, because which one is raised is our own choice."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.type, ast.Name) and node.type.id == "RuntimeError":
            names = ("RuntimeError", "TypeError", "ValueError", "IndexError")
            node.type = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        of_tensor = isinstance(node.value, ast.Attribute) and node.value.attr == "Tensor"
        if not (node.attr in FACTS or of_tensor) or not isinstance(node.ctx, ast.Load):
            return node
        asked = ast.Call(ast.Name("fact_of", ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return ast.copy_location(asked, node)


def marks(**facts: Any) -> Callable[[Any], Any]:
    def mark(function: Any) -> Any:
        for name, value in facts.items():
            setattr(function, name, value)
        return function

    return mark


def identity(*args: Any, **keywords: Any) -> Any:
    """A decorator of PyTorch's tests that does not matter here, with or without arguments."""
    if len(args) == 1 and not keywords and (isinstance(args[0], type) or callable(args[0])):
        return args[0]
    return lambda function: function


def parametrize(arg_str: str, arg_values: Any, **_: Any) -> Callable[[Any], Any]:
    def mark(function: Any) -> Any:
        split = [name.strip() for name in arg_str.split(",")]
        rows = []
        for value in arg_values:
            if isinstance(value, common_utils.subtest):
                value = (
                    value.arg_values
                    if len(split) > 1
                    else value.arg_values[0]
                    if isinstance(value.arg_values, tuple | list) and len(value.arg_values) == 1
                    else value.arg_values
                )
            rows.append(dict(zip(split, value if len(split) > 1 else [value], strict=True)))
        function.tables = [*getattr(function, "tables", []), rows]
        return function

    return mark


def dtypes(*found: Any, **_: Any) -> Callable[[Any], Any]:
    if (
        len(found) == 1
        and isinstance(found[0], list | tuple)
        and not isinstance(found[0], np.dtype)
    ):
        found = tuple(found[0])
    return marks(dtypes=found)


ANY_ERROR = Exception  # which one is raised, and its words, are our own choice


class TestCase(common_utils.TestCase):
    """PyTorch's comparison of our tensors, as PyTorch's; the words of errors are our own."""

    device_type = "cpu"

    def setUp(self) -> None:
        super().setUp()
        set_rng_seed()

    def compare_with_numpy(
        self,
        torch_fn: Any,
        np_fn: Any,
        like: Any,
        device: Any = None,
        dtype: Any = None,
        **keywords: Any,
    ) -> None:
        given = like if isinstance(like, gw.Tensor) else gw.tensor(like, dtype=dtype)
        expected, found = np_fn(given.numpy()), torch_fn(given)
        if isinstance(expected, np.ndarray | np.generic):
            expected = gw.tensor(expected)
        self.assertEqual(expected, found, **{"exact_dtype": False} | keywords)

    def genSparseTensor(self, *args: Any, **keywords: Any) -> Any:
        return translated(super().genSparseTensor)(*args, **keywords)

    def genSparseCompressedTensor(self, *args: Any, **keywords: Any) -> Any:
        if isinstance(keywords["layout"], Missing):
            raise MissingName(keywords["layout"]._name)
        return translated(super().genSparseCompressedTensor)(*args, **keywords)

    def generate_simple_inputs(self, layout: Any, *args: Any, **keywords: Any) -> Iterator[Any]:
        if isinstance(layout, Missing):
            raise MissingName(layout._name)
        theirs = getattr(torch, str(layout).rpartition(".")[2])
        plain = common_utils.TestCase()  # it calls its own method again
        for made in plain.generate_simple_inputs(theirs, *to_torch(args), **to_torch(keywords)):
            yield from_torch(made)

    def assertEqual(self, x: Any, y: Any, msg: Any = None, **keywords: Any) -> None:
        super().assertEqual(to_torch(x), to_torch(y), msg, **keywords)

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **keywords: Any) -> None:
        super().assertNotEqual(to_torch(x), to_torch(y), msg, **keywords)

    def assertRaisesRegex(
        self, expected_exception: Any, expected_regex: Any, *args: Any, **keywords: Any
    ) -> Any:
        return self.assertRaises(expected_exception, *args, **keywords)

    def assertWarnsRegex(self, warning: Any, regex: Any, *args: Any, **keywords: Any) -> Any:
        return self.assertWarns(warning, *args, **keywords)

    def assertRaises(self, error: Any, *args: Any, **keywords: Any) -> Any:
        return super().assertRaises(ANY_ERROR, *args, **keywords)


def both_gradchecks(
    test: Any, function: Any, inputs: Any, gradgradcheck_atol: float = 1e-5, **_: Any
) -> None:
    test.assertTrue(gw.autograd.gradcheck(function, inputs))
    test.assertTrue(gw.autograd.gradgradcheck(function, inputs, atol=gradgradcheck_atol))


def close(actual: Any, expected: Any, **keywords: Any) -> None:
    torch.testing.assert_close(to_torch(actual), to_torch(expected), **keywords)


EQUIVALENT |= {
    "torch.testing.assert_close": close,
    "torch.testing.make_tensor": make_tensor,
    "torch._prims_common": types.SimpleNamespace(
        corresponding_complex_dtype=lambda dtype: fact_of(dtype, "to_complex")()
    ),
    "torch._utils": types.SimpleNamespace(_element_size=lambda dtype: dtype.itemsize),
    "torch._C": Alias(
        "torch._C",
        types.SimpleNamespace(
            has_lapack=True,
            _functorch=Alias(
                "torch._C._functorch",
                types.SimpleNamespace(  # ours never loops
                    _is_vmap_fallback_enabled=lambda: False,
                    _set_vmap_fallback_enabled=lambda on: None,
                ),
            ),
            _infer_size=lambda a, b: np.broadcast_shapes(a, b),
            _is_alias_of=lambda a, b: np.shares_memory(a.numpy(), b.numpy()),
        ),
    ),
    # Tests ask whether a layout is one of these.
    **{f"torch.{name}": Missing(f"torch.{name}") for name in LACKED_LAYOUTS},
    "torch._segment_reduce": gw.segment_reduce,
    # A result that is checked for what PyTorch asks of the parts of a sparse tensor.
    **{
        f"torch._validate_sparse_{kind}_tensor_args": translated(
            getattr(torch, f"_validate_sparse_{kind}_tensor_args")
        )
        for kind in ("coo", "compressed")
    },
    # What the tests of masked reductions compute their expectations with.
    **{
        f"torch.masked.{name}": translated(getattr(torch.masked, name))
        for name in ("_canonical_dim", "_input_mask", "_output_mask")
    },
    "torch.save": lambda *args, **keywords: None if LOADING else gw.save(*args, **keywords),
}


def only_elsewhere(*args: Any, **keywords: Any) -> Any:
    mark = marks(elsewhere=True)
    return mark(args[0]) if len(args) == 1 and not keywords and callable(args[0]) else mark


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    before = gw.get_default_dtype()
    gw.set_default_dtype(dtype)
    try:
        yield
    finally:
        gw.set_default_dtype(before)


@contextlib.contextmanager
def frozen_state() -> Iterator[None]:
    before = gw.get_rng_state()
    try:
        yield
    finally:
        gw.set_rng_state(before)


def set_rng_seed(seed: int = common_utils.SEED) -> None:
    """Tests that count draws are made for PyTorch's numbers, and fail with most others."""
    common_utils.set_rng_seed(seed)
    gw.manual_seed(seed, like="torch")


SHIMS: dict[str, Any] = {
    "set_rng_seed": set_rng_seed,
    "set_default_dtype": set_default_dtype,
    "torch_to_numpy_dtype_dict": {
        np.dtype(name): np.dtype(name) for name in DTYPES if name != "bfloat16"
    },
    "make_tensor": make_tensor,
    "noncontiguous_like": noncontiguous_like,
    "TestCase": TestCase,
    "gradcheck": gw.autograd.gradcheck,
    "gradgradcheck": gw.autograd.gradgradcheck,
    "precisionOverride": lambda found: marks(
        precisions={dtype_of_ours(dtype): atol for dtype, atol in found.items()}
    ),
    "disable_gc": common_utils.disable_gc,
    "_assertGradAndGradgradChecks": both_gradchecks,
    "dtype2prec_DONTUSE": {
        dtype_of_ours(dtype): atol for dtype, atol in common_utils.dtype2prec_DONTUSE.items()
    },
    "parametrize": parametrize,
    "parametrize_test": parametrize,
    "subtest": common_utils.subtest,
    "dtypes": dtypes,
    "dtypesIfCPU": dtypes,
    "onlyCUDA": only_elsewhere,
    "onlyOn": only_elsewhere,
    "onlyMPS": only_elsewhere,
    "largeTensorTest": lambda *_, **__: marks(elsewhere=True),
    "deviceCountAtLeast": lambda *_: marks(elsewhere=True),
    "slowTest": identity,
    "run_tests": lambda: None,
    "instantiate_device_type_tests": lambda *args, **keywords: None,
    "instantiate_parametrized_tests": identity,
    "freeze_rng_state": frozen_state,
}
DATABASE = (
    *("ops", "op_db", "ops_and_refs", "python_ref_db", "custom_op_db", "hop_db"),
    *("autograd_function_db", "TestGradients"),
)
DECORATORS = (
    "skip",
    "only",
    "xfail",
    "expected",
    "tf32",
    "dtypesIf",
    "precision",
    "with_tf32",
    "serial",
    "slow",
    "decorate",
    "reduced",
    "tolerance",
    "disable",
    "suppress",
    "markDynamo",
    "unMark",
    "has",
    "requires",
    "native",
    "nonDeterministic",
    "dont",
    "set_default_dtype",
    "largeCUDA",
)


def shimmed(module: str, name: str) -> Any:
    """A name of torch.testing for a test file."""
    if name in SHIMS:
        return SHIMS[name]
    if name in DATABASE:
        from tools.pytorch_tests import op_database  # seconds to import, for few files

        return op_database.SHIMS[name]
    if name.startswith(DECORATORS) and not name.startswith(("set_default", "has")):
        return identity
    from tools.pytorch_tests import loading  # it imports this file

    if module in loading.HELPERS:
        return getattr(loading.helper(module), name, Missing(f"{module}.{name}"))
    real = importlib.import_module(module)
    found = getattr(real, name, None)
    if found is None:
        return Missing(f"{module}.{name}")
    if "logging_tensor" in module or "two_tensor" in module:  # classes of tensors of PyTorch's own
        return Missing(f"{module}.{name}")
    if name.startswith(
        (
            "mask_not",
            "random_",
            "make_fullrank_",
            "make_symmetric",
            "make_lazy",
            "bytes_to_",
            "is_coalesced_",
        )
    ):
        return translated(found)
    if "common_dtype" in module and callable(found):
        return lambda *args, **keywords: tuple(
            dtype_of_ours(d)
            for d in found(
                *(dtype_of_torch(d) for d in args if not isinstance(d, Missing)), **keywords
            )
            if not isinstance(dtype_of_ours(d), Missing)
        )
    return from_torch(found) if isinstance(found, dict) else found


class Shim(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return shimmed(self.__name__, name)


def importing(
    name: str,
    scope: Any = None,
    local: Any = None,
    wanted: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """`__import__` for a test file: PyTorch's names are ours, its test helpers the shims above."""
    if level or (
        not name.startswith("test_")
        and name.split(".")[0]
        not in (
            "torch",
            "torchvision",
            "functorch",
            "common_utils",
            "functorch_additional_op_db",
            "autograd",
            "optim",
        )
    ):
        return builtins.__import__(name, scope, local, wanted or (), level)
    if name.startswith("test_"):  # another test file
        return types.SimpleNamespace(**{each: Missing(f"{name}.{each}") for each in wanted or ()})
    if name == "functorch_additional_op_db":
        return types.SimpleNamespace(additional_op_db=[])
    if name == "common_utils":  # beside the tests of functorch
        from tools.pytorch_tests import loading

        return loading.helper(name, loading.folder())
    if name.split(".")[0] == "functorch":
        if not wanted:
            return Alias("functorch", gw.func)
        ours = gw.func if name == "functorch" else None
        found = {each: getattr(ours, each, Missing(f"{name}.{each}")) for each in wanted}
        return types.SimpleNamespace(**found)
    if not name.startswith("torch."):
        return ROOT if name == "torch" and not wanted else _names(name, wanted)
    if not wanted:
        return ROOT
    return _names(name, wanted)


def _names(name: str, wanted: Sequence[str] | None) -> Any:
    if name.startswith(("torch.testing", "torchvision", "optim")):
        return (
            types.SimpleNamespace(**{each: shimmed(name, each) for each in wanted or ()})
            if name.startswith("torch.testing")
            else types.SimpleNamespace(**{each: Missing(f"{name}.{each}") for each in wanted or ()})
        )
    return types.SimpleNamespace(**{each: resolve(f"{name}.{each}") for each in wanted or ()})


def combinations(method: Any, names: Sequence[str], owner: str) -> Iterator[dict[str, Any]]:
    """The keywords of every case of a test method."""
    tables = list(getattr(method, "tables", []))
    if hasattr(method, "entries"):  # of a database, each with its dtypes
        tables.append([
            {key: value for key, value in row.items() if key in names}
            for row in method.entries(owner, method.__name__)
        ])  # fmt: skip
        names = [name for name in names if name != "dtype"]
    if "device" in names:
        tables.append([{"device": "cpu"}])
    if "dtypes" in names:
        pairs = [found for found in getattr(method, "dtypes", ()) if isinstance(found, tuple)]
        tables.append(
            [{"dtypes": pair} for pair in pairs if not any(isinstance(d, Missing) for d in pair)]
        )
    if "dtype" in names:
        tables.append(
            [
                {"dtype": dtype}
                for dtype in getattr(method, "dtypes", ())
                if not isinstance(dtype, Missing | tuple | list)
            ]
        )
    for rows in itertools.product(*tables):
        yield {key: value for row in rows for key, value in row.items()}
