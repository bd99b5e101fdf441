"""The doctor on the clinic's training programs: it gets the program, and no hint.

`python -m tests.clinic.report` prints the same as a table.
"""

import pytest

from tests.batches import batched
from tests.clinic.clinic_programs import ENGINES, PROGRAMS, SYMPTOMS, ClinicProgram

CASES = [(program, engine) for program in PROGRAMS for engine in program.engines]


def name_of(case: tuple[ClinicProgram, str]) -> str:
    return f"{case[0].name}-{case[1]}"


def test_there_are_enough_pairs() -> None:
    older = [path for path in PROGRAMS[0].path.parents[2].glob("*_*.py") if "test" not in path.stem]
    assert len(PROGRAMS) + len(older) >= 110


@batched("program", PROGRAMS, key=lambda program: program.path.parent.name)
def test_a_program_states_its_symptom_and_its_line(program: ClinicProgram) -> None:
    assert program.header["symptom"] in SYMPTOMS
    assert set(program.engines) <= set(ENGINES)
    assert 1 <= len(program.lines) <= 2
    sick, healthy = (program.text("torch", sick).splitlines() for sick in (True, False))
    assert len(sick) == len(healthy)
    assert sum(one != other for one, other in zip(sick, healthy)) == 1


@pytest.mark.slow
@batched("case", CASES, key=lambda case: f"{case[0].path.parent.name}-{case[1]}")
def test_the_doctor_names_cause_and_line_and_leaves_the_twin_alone(
    case: tuple[ClinicProgram, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    program, engine = case
    folder = tmp_path_factory.mktemp("clinic")
    said = program.examine(folder, engine, sick=True)
    assert program.verdict(said) == "found", f"{name_of(case)}: {said}"
    for finding in said.findings:
        assert finding.change and finding.basis and finding.confidence
    healthy = program.examine(folder, engine, sick=False)
    assert not healthy, f"{name_of(case)}: {healthy}"
