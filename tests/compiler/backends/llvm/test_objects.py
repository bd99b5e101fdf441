"""LLVM text to callable addresses."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.emit.ir_builder import Declaration
from gradwalk.compiler.backends.llvm.runtime import object_code
from gradwalk.compiler.backends.llvm.runtime.object_code import (
    CompileError,
    compile_module,
    compile_text,
)

I64, DOUBLE = ctypes.c_int64, ctypes.c_double


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def adder(name: str, amount: int) -> str:
    return f"define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, {amount}\n  ret i64 %y\n}}\n"


def test_functions_by_name() -> None:
    library = compile_text({f"plus{k}": adder(f"plus{k}", k) for k in range(5)})
    assert library.compiled == 5
    for k in range(5):
        assert library.function(f"plus{k}", I64, I64)(10) == 10 + k


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_makes_the_same_code(threads: int) -> None:
    names = [f"by{threads}_{k}" for k in range(5)]
    texts = {name: adder(name, k * threads) for k, name in enumerate(names)}
    library = compile_text(texts, threads=threads)
    found = [library.function(name, I64, I64)(1) for name in names]
    assert found == [1 + k * threads for k in range(5)]


def test_no_functions_at_all() -> None:
    assert compile_text({}).addresses == {}


def test_what_is_loaded_is_not_compiled_again() -> None:
    first = compile_text({"once": adder("once", 1), "twice": adder("twice", 2)})
    second = compile_text({"twice": adder("twice", 2), "thrice": adder("thrice", 3)})
    assert (first.compiled, second.compiled) == (2, 1)
    assert first["twice"] == second["twice"]
    del first
    gc.collect()
    assert second.function("twice", I64, I64)(40) == 42  # its code stayed


def test_the_same_name_with_another_text_is_another_function() -> None:
    first = compile_text({"same": adder("same", 1)})
    second = compile_text({"same": adder("same", 2)})
    found = [library.function("same", I64, I64)(0) for library in (first, second)]
    assert found == [1, 2]


def test_code_is_unloaded_with_its_library() -> None:
    library = compile_text({"leaves": adder("leaves", 1)})
    part = weakref.ref(library._keep[0])
    call = library.function("leaves", I64, I64)
    del library
    gc.collect()
    assert part() is not None
    assert call(1) == 2  # the callable keeps it
    hold = weakref.ref(object_code._holds[weakref.ref(part())])
    del call
    gc.collect()
    assert part() is None
    compile_text({"later": adder("later", 1)})  # frees what is gone, where nothing interrupts it
    assert hold() is None


def test_from_disk(own_cache: Path) -> None:
    text = {"kept": adder("kept", 5)}
    library = compile_text(text)
    assert library.compiled == 1
    assert len(list(own_cache.glob("*.objects"))) == 1
    del library
    gc.collect()
    again = compile_text(text)
    assert again.compiled == 0
    assert again.function("kept", I64, I64)(1) == 6


def test_functions_of_libm_and_of_a_given_address() -> None:
    text = """define double @both(double %x) {
  %a = call double @cos(double %x)
  %b = call double @given(double %a)
  ret double %b
}
"""
    squared = ctypes.CFUNCTYPE(DOUBLE, DOUBLE)(lambda x: x * x)
    address = ctypes.cast(squared, ctypes.c_void_p).value or 0
    declarations = [Declaration("double", name, ("double",)) for name in ("cos", "given")]
    library = compile_text({"both": text}, declarations, symbols={"given": address})
    assert library.function("both", DOUBLE, DOUBLE)(0.5) == pytest.approx(np.cos(0.5) ** 2)


def test_a_library_keeps_the_one_it_calls() -> None:
    inner = compile_text({"inner": adder("inner", 3)})
    part = weakref.ref(inner._keep[0])
    text = "define i64 @outer(i64 %x) {\n  %y = call i64 @inner(i64 %x)\n  ret i64 %y\n}\n"
    symbols = {"inner": inner["inner"]}
    outer = compile_text({"outer": text}, [Declaration("i64", "inner", ("i64",))], symbols)
    del inner
    gc.collect()
    assert part() is not None
    assert outer.function("outer", I64, I64)(4) == 7


def test_constants_and_helpers_of_a_text() -> None:
    text = """@table.values = private constant [3 x i64] [i64 7, i64 8, i64 9]
define private i64 @table.help(i64 %x) {
  %place = getelementptr i64, ptr @table.values, i64 %x
  %value = load i64, ptr %place
  ret i64 %value
}
define i64 @table(i64 %x) {
  %y = call i64 @table.help(i64 %x)
  ret i64 %y
}
"""
    assert compile_text({"table": text}).function("table", I64, I64)(2) == 9


def test_a_text_llvm_cannot_read() -> None:
    with pytest.raises(CompileError, match="undefined value '%nothing'"):
        compile_text({"f": "define i64 @f() {\n  ret i64 %nothing\n}\n"})


def test_a_text_that_is_not_valid() -> None:
    text = "define i64 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 1\n"
    text += "  br label %b\nb:\n  ret i64 %x\n}\n"
    with pytest.raises(CompileError, match="does not dominate"):
        compile_text({"f": text})


def test_a_mistake_in_another_thread_is_told() -> None:
    texts = {"good": adder("good", 1), "bad": "define i64 @bad() {\n  ret i64 %x\n}\n"}
    with pytest.raises(CompileError, match="undefined value"):
        compile_text(texts, threads=2)


def test_a_function_that_is_nowhere() -> None:
    text = "define void @f() {\n  call void @nowhere_at_all()\n  ret void\n}\n"
    with pytest.raises(CompileError, match="not in this process: nowhere_at_all"):
        compile_text({"f": text}, [Declaration("void", "nowhere_at_all", ())])


def test_a_module_has_state_of_its_own() -> None:
    text = """@count = internal global i64 0
define i64 @next() {
  %old = atomicrmw add ptr @count, i64 1 seq_cst
  ret i64 %old
}
"""
    first, second = (compile_module(text, ["next"]).function("next", I64) for _ in range(2))
    assert [first(), first(), second()] == [0, 1, 0]


def test_assembly_is_text() -> None:
    text = object_code.assembly({"shown": adder("shown", 1)})
    assert "shown:" in text
    assert "ret" in text


def test_groups_are_balanced() -> None:
    groups = object_code._balanced([c * n for c, n in zip("abcde", (50, 10, 30, 20, 10))], 2)
    assert sorted(len("".join(group)) for group in groups) == [60, 60]


def test_the_host() -> None:
    host = target.host()
    assert host.vector_bytes in (16, 32, 64)
    assert host.lanes(4) == host.vector_bytes // 4
    if host.vector_bytes == 64:
        assert "+avx512f" in host.features


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_container(
    files: dict[str, str], granted: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert target._quota(tmp_path) == granted


def test_gradwalk_alone_does_not_import_llvm() -> None:
    code = "import sys, gradwalk; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_llvmlite() -> None:
    code = """
import sys
sys.modules["llvmlite"] = None  # as if it were not installed
from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.emit.ir_builder import Declaration
assert not target.available()
try:
    target.host()
except target.LLVMMissing as error:
    assert "pip install llvmlite" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)
