"""The public names of gradwalk: sorted, complete, documented, and none changed by accident.

After a change on purpose, write the list anew and commit it with the change:

    .venv/bin/python -m tests.project.test_exported_names
"""

from pathlib import Path
from types import ModuleType

import gradwalk
from tests.batches import batched

SNAPSHOT = Path(__file__).with_name("exported_names.txt")
UPDATE = "python -m tests.project.test_exported_names"


def snapshot(names: list[str]) -> str:
    return "".join(f"{name}\n" for name in names)


def is_submodule(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith("gradwalk.")


def test_all_is_sorted_and_has_no_name_twice() -> None:
    assert list(gradwalk.__all__) == sorted(set(gradwalk.__all__))


def test_all_is_complete() -> None:
    left_out = {
        name
        for name, value in vars(gradwalk).items()
        if not name.startswith("_") and not is_submodule(value) and name not in gradwalk.__all__
    }
    left_out.discard("annotations")  # from __future__: every module that asks for it has it
    assert not left_out, "add these to gradwalk.__all__, or import them under a private name"


@batched("name", gradwalk.__all__)
def test_exported_name_exists_and_is_documented(name: str) -> None:
    value = getattr(gradwalk, name)
    # A constant has its type's docstring; whatever can be called, an op too, has one of its own.
    if callable(value) or isinstance(value, ModuleType):
        inherited = None if isinstance(value, type) else type(value).__doc__
        assert value.__doc__ and value.__doc__ != inherited, f"gradwalk.{name} has no docstring"


def test_names_are_those_of_the_snapshot() -> None:
    recorded = SNAPSHOT.read_text(encoding="utf-8").split()
    added = sorted(set(gradwalk.__all__) - set(recorded))
    removed = sorted(set(recorded) - set(gradwalk.__all__))
    assert not (added or removed), (
        f"the public names changed: added {added}, removed {removed}.\n"
        f"If that is meant, run `{UPDATE}` and note it in CHANGELOG.md."
    )
    assert SNAPSHOT.read_text(encoding="utf-8") == snapshot(gradwalk.__all__), f"run `{UPDATE}`"


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot(gradwalk.__all__), encoding="utf-8")
    print(f"wrote {len(gradwalk.__all__)} names to {SNAPSHOT.name}")
