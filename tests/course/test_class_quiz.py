"""Quizzes for a class: rosters, sheets to print, QTI packages, and results."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import pytest
from typer.testing import CliRunner

from gradwalk.cli import app
from gradwalk.course.quiz.qti import PACKAGE, QTI, as_qti
from gradwalk.course.quiz.quiz import LETTERS, Quiz, make_quiz
from gradwalk.course.quiz.results import answer_sheet, as_csv, grade, grade_folder, guarded
from gradwalk.course.quiz.roster import Learner, RosterError, learners_of, read_roster
from gradwalk.course.quiz.sheet import printed

NAMES = "name\nAda Lovelace\nZoë O'Neil\n李雷\n"


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["course", *arguments])
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.output


# -- class lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (NAMES, ["Ada Lovelace", "Zoë O'Neil", "李雷"]),
        ("\ufeffName,Id\r\nAda  Lovelace,7\r\n\r\n", ["Ada Lovelace"]),
        ("First Name;Last Name\nAda;Lovelace\n", ["Ada Lovelace"]),
        ('id\tStudent\n1\t"Lovelace, Ada"\n', ["Lovelace, Ada"]),
        ("Ada\nGrace\n", ["Ada", "Grace"]),
    ],
)
def test_a_class_list_is_read_as_people_write_it(text: str, names: list[str]) -> None:
    assert [learner.name for learner in learners_of(text.removeprefix("\ufeff"))] == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no names"),
        ("name\n", "no names"),
        ("first name,last name\n", "no names"),
        ("a,b\n1,2\n", "none is called name"),
        ("name\nAda\nada\n", "stands there twice"),
        ("name,id\n,7\n", "learner 1 has no name"),
    ],
)
def test_a_class_list_that_cannot_be_used_says_why(text: str, words: str) -> None:
    with pytest.raises(RosterError, match=words):
        learners_of(text)


def test_a_name_has_the_same_quiz_whoever_else_is_listed() -> None:
    many, alone = learners_of(NAMES), learners_of("Zoë O'Neil\n")
    assert many[1].quiz("autumn") == alone[0].quiz("autumn") == make_quiz("autumn: Zoë O'Neil")
    assert many[1].quiz("spring") != many[1].quiz("autumn") != many[0].quiz("autumn")


def test_files_of_a_class_have_names_of_their_own() -> None:
    assert learners_of("Con\n")[0].file != "con"  # a device of Windows
    files = [learner.file for learner in learners_of("Zoë\nZoe\n../../etc\n李雷\n韩梅\n")]
    assert len(set(files)) == 5
    assert all(set(file) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for file in files)


# -- sheets ----------------------------------------------------------------------------------------


def test_a_sheet_has_every_question_and_only_the_key_has_answers() -> None:
    learners = learners_of("<Ada & co>\nGrace\n")
    quizzes = [learner.quiz() for learner in learners]
    names = [learner.name for learner in learners]
    sheet, key = (printed(quizzes, answers, names) for answers in (False, True))
    assert sheet.count('class="sheet"') == 2 and "&lt;Ada &amp; co&gt;" in sheet
    assert sheet.count('class="text"') == 20 and "<script" not in sheet
    assert 'class="answer"' not in sheet and "box right" not in sheet
    assert key.count('class="answer"') + key.count("box right") == 20
    assert "@page" in sheet and "http" not in sheet.replace("http-equiv", "")


def test_a_class_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.csv").write_text(NAMES, encoding="utf-8")
    command = ("quiz", "--roster", "names.csv", "--seed", "autumn", "--count", "4")
    assert "3 learners" in run(*command, "--out", "sheets")
    assert (tmp_path / "sheets/answers/ada-lovelace.txt").is_file()
    assert "exists already" in run(*command, "--out", "sheets", status=2)
    assert "name a folder" in run(*command, status=2)
    run(*command, "--format", "gift", "--out", "gift")
    assert len(list((tmp_path / "gift").glob("*.gift"))) == 3
    assert "cannot read" in run("quiz", "--roster", "no.csv", "--out", "x", status=2)
    assert "is a zip file" in run("quiz", "--format", "qti", status=2)


# -- results ---------------------------------------------------------------------------------------


def typed(quiz: Quiz, wrong: bool = False) -> list[str]:
    """Every answer as a person types it: numbers, and the letters of options."""
    given = []
    for question in quiz.questions:
        answer = question.wrong[0].gives if wrong else question.answer
        if isinstance(answer, str):
            given.append(LETTERS[question.options.index(answer)])
        else:
            given.append(f"{answer:.2f}".replace(".", ","))
    return given


def filled(quiz: Quiz, wrong: bool = False) -> str:
    return "\n".join(f"{i} = {text}" for i, text in enumerate(typed(quiz, wrong), 1))


def test_answers_are_graded_and_misconceptions_named() -> None:
    quiz = make_quiz("Ada", 40)
    assert grade("Ada", filled(quiz), quiz).points == 40
    wrong = grade("Ada", filled(quiz, wrong=True), quiz)
    assert wrong.points == 0
    names = [answer.misconception for answer in wrong.answers]
    assert names == [question.wrong[0].name for question in quiz.questions]
    empty = grade("Ada", answer_sheet(Learner("Ada", "ada"), quiz), quiz)
    assert empty.points == 0 and not any(a.given for a in empty.answers) and not empty.note


@pytest.mark.parametrize("line", ["1 = 9/3", "1) 3", "1: 3,0", "  1 . +3.000 "])
def test_numbers_are_read_as_people_write_them(line: str) -> None:
    quiz = next(q for q in map(make_quiz, map(str, range(200))) if q.questions[0].answer == 3.0)
    assert grade("Ada", line, quiz).answers[0].right
    assert "not read: 'three'" in grade("Ada", "three", quiz).note
    assert "not read: '1 = about 3'" in grade("Ada", "1 = about 3", quiz).note


def test_answers_to_another_quiz_are_not_graded() -> None:
    ada = Learner("Ada", "ada")
    sheet = answer_sheet(ada, ada.quiz("autumn", 3)).replace("1 = ", "1 = 2")
    assert grade("Ada", sheet, ada.quiz("autumn", 3)).answers[0].given == "2"
    other = grade("Ada", sheet, ada.quiz("winter", 3))
    assert not other.answers and "--seed" in other.note


def test_a_folder_of_answers_as_csv(tmp_path: Path) -> None:
    learners = learners_of("Ada\n=cmd\nGrace\n")
    ada = learners[0].quiz("", 3)
    (tmp_path / "ada.txt").write_text(filled(ada), encoding="utf-8")
    (tmp_path / "cmd.txt").write_bytes(b"\xff\xfe\x00 1 = 2")
    (tmp_path / "stranger.txt").write_text("1 = 2", encoding="utf-8")
    found, others = grade_folder(tmp_path, learners, "", 3)
    assert others == ["stranger.txt"]
    text = as_csv(found, {learner.name: learner.quiz("", 3) for learner in learners})
    first, formula, missing = csv.DictReader(io.StringIO(text))
    assert (first["points"], first["out_of"], first["q3"]) == ("3", "3", "1")
    assert formula["name"] == "'=cmd" == guarded("=cmd")
    assert (missing["note"], missing["q1"]) == ("no file", "")


def test_results_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.csv").write_text(NAMES, encoding="utf-8")
    run("quiz", "--roster", "names.csv", "--out", "sheets")
    ada = read_roster(Path("names.csv"))[0]
    Path("sheets/answers/ada-lovelace.txt").write_text(filled(ada.quiz()), encoding="utf-8")
    output = run("results", "sheets/answers", "--roster", "names.csv")
    assert "Ada Lovelace,10,10,1,1" in output and "1 of 3 learners gave answers" in output
    assert "is not a folder" in run("results", "nowhere", "--roster", "names.csv", status=2)


# -- QTI -------------------------------------------------------------------------------------------

ORDER = ["responseDeclaration", "outcomeDeclaration", "itemBody", "responseProcessing"]


def tag(element: Tree.Element) -> str:
    return element.tag.rpartition("}")[2]


def package(quiz: Quiz) -> dict[str, Tree.Element]:
    with zipfile.ZipFile(io.BytesIO(as_qti(quiz))) as packed:
        return {name: Tree.fromstring(packed.read(name)) for name in packed.namelist()}


class Platform:
    """As much of a QTI 2.1 platform as grades one response by the rules in the item."""

    def __init__(self, item: Tree.Element) -> None:
        self.item = item
        self.names = {"q": QTI}

    def respond(self, response: Any) -> dict[str, str]:
        outcomes = {
            d.attrib["identifier"]: d.findtext("q:defaultValue/q:value", "", self.names)
            for d in self.item.findall("q:outcomeDeclaration", self.names)
        }
        condition = self.item.find("q:responseProcessing/q:responseCondition", self.names)
        assert condition is not None
        for case in condition:
            test, *rules = list(case)
            if self.holds(test, response):
                for rule in rules:
                    assert tag(rule) == "setOutcomeValue"
                    outcomes[rule.attrib["identifier"]] = rule[0].text or ""
                break
        return outcomes

    def holds(self, test: Tree.Element, response: Any) -> bool:
        base, variable = list(test)
        assert tag(base) == "baseValue" and variable.attrib == {"identifier": "RESPONSE"}
        if tag(test) == "match":
            return bool(base.text == response)
        below, above = map(float, test.attrib["tolerance"].split())
        assert tag(test) == "equal" and test.attrib["toleranceMode"] == "absolute"
        return float(base.text or "nan") - below <= response <= float(base.text or "") + above


def test_a_package_has_what_the_specification_asks_for() -> None:
    files = package(make_quiz("Ada", 40))
    manifest = files["imsmanifest.xml"]
    assert manifest.tag == f"{{{PACKAGE}}}manifest" and manifest.attrib["identifier"]
    assert [tag(e) for e in manifest] == ["metadata", "organizations", "resources"]
    assert [e.text for e in manifest[0]] == ["QTIv2.1 Package", "1.0.0"]
    resources = list(manifest[2])
    listed = {f.attrib["href"] for r in resources for f in r if tag(f) == "file"}
    assert listed == files.keys() - {"imsmanifest.xml"}
    kinds = {r.attrib["identifier"]: r.attrib["type"] for r in resources}
    assert kinds.pop("test") == "imsqti_test_xmlv2p1" and set(kinds.values()) == {
        "imsqti_item_xmlv2p1"
    }
    needs = {d.attrib["identifierref"] for d in resources[0] if tag(d) == "dependency"}
    assert needs == set(kinds) and len(kinds) == 40
    test = files["test.xml"]
    assert {"identifier", "title"} <= test.attrib.keys()
    part = next(e for e in test if tag(e) == "testPart")
    assert {"identifier", "navigationMode", "submissionMode"} <= part.attrib.keys()
    assert {ref.attrib["identifier"] for ref in part[0]} == set(kinds)


def test_every_item_grades_itself() -> None:
    quiz = make_quiz("Ada", 40)
    files = package(quiz)
    items = [files[name] for name in sorted(files) if name.startswith("items/")]
    for question, item in zip(quiz.questions, items, strict=True):
        assert item.tag == f"{{{QTI}}}assessmentItem"
        assert {"identifier", "title", "adaptive", "timeDependent"} <= item.attrib.keys()
        parts = [tag(e) for e in item if tag(e) != "modalFeedback"]
        assert list(dict.fromkeys(parts)) == ORDER
        grade_it = Platform(item).respond
        choices = {"".join(e.itertext()): e.attrib["identifier"] for e in item.iter()
                   if tag(e) == "simpleChoice"}  # fmt: skip
        feedback = {e.attrib["identifier"]: "".join(e.itertext()).strip() for e in item
                    if tag(e) == "modalFeedback"}  # fmt: skip
        right = grade_it(choices.get(str(question.answer), question.answer))
        assert (right["SCORE"], right["FEEDBACK"]) == ("1", "right")
        for wrong in question.wrong:
            found = grade_it(choices.get(str(wrong.gives), wrong.gives))
            assert found["SCORE"] == "0" and feedback[found["FEEDBACK"]] == wrong.says
        other = grade_it("nothing" if choices else math.pi * 1e5)
        assert (other["SCORE"], other["FEEDBACK"]) == ("0", "other")
    assert as_qti(quiz) == as_qti(make_quiz("Ada", 40))
