"""A quiz as a QTI 2.1 package: a zip of items, a test and a manifest, for learning platforms.

Each item carries its own response processing, so that a platform grades it without a template: a
typed number within the tolerance is right, and a misconception's number or option gets feedback.
"""

from __future__ import annotations

import io
import re
import zipfile
from xml.etree import ElementTree as Tree

from gradwalk.course.quiz.bank import Drawn
from gradwalk.course.quiz.quiz import Quiz, plain_number

QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
PACKAGE = "http://www.imsglobal.org/xsd/imscp_v1p1"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
_WHERE = {
    QTI: "http://www.imsglobal.org/xsd/qti/qtiv2p1/imsqti_v2p1.xsd",
    PACKAGE: "http://www.imsglobal.org/xsd/qti/qtiv2p1/qtiv2p1_imscpv1p2_v1p0.xsd",
}
_DATE = (2000, 1, 1, 0, 0, 0)  # the same quiz gives the same bytes


def as_qti(quiz: Quiz) -> bytes:
    """The package of a quiz, as the bytes of a zip file."""
    items = {_identifier(i, question): question for i, question in enumerate(quiz.questions, 1)}
    files = {f"items/{name}.xml": _item(name, question) for name, question in items.items()}
    files["test.xml"] = _test(quiz, list(items))
    files["imsmanifest.xml"] = _manifest(list(items))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        for name in sorted(files, key=lambda name: name != "imsmanifest.xml"):
            Tree.indent(files[name])
            text = Tree.tostring(files[name], encoding="unicode")
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')
    return packed.getvalue()


def _identifier(place: int, question: Drawn) -> str:
    return f"q{place:02}-{re.sub(r'[^A-Za-z0-9._-]', '-', question.id)}"


def _root(tag: str, namespace: str, **attributes: str) -> Tree.Element:
    where = f"{namespace} {_WHERE[namespace]}"
    given = {"xmlns": namespace, "xmlns:xsi": XSI, "xsi:schemaLocation": where, **attributes}
    return Tree.Element(tag, given)


def _inside(outer: Tree.Element, tag: str, text: str = "", **attributes: str) -> Tree.Element:
    element = Tree.SubElement(outer, tag, attributes)
    element.text = text or None
    return element


# -- an item ---------------------------------------------------------------------------------------


def _item(name: str, question: Drawn) -> Tree.Element:
    title = f"{question.kind}: {question.id}"
    item = _root("assessmentItem", QTI, identifier=name, title=title, adaptive="false",
                 timeDependent="false")  # fmt: skip
    choices = {text: f"choice{i}" for i, text in enumerate(question.options)}
    base = "identifier" if choices else "float"
    declared = _inside(
        item, "responseDeclaration", identifier="RESPONSE", cardinality="single", baseType=base
    )
    correct = _inside(declared, "correctResponse")
    _inside(correct, "value", choices.get(str(question.answer)) or plain_number(question.answer))
    for outcome, base, value in (
        ("SCORE", "float", "0"),
        ("MAXSCORE", "float", "1"),
        ("FEEDBACK", "identifier", "other"),
    ):
        kept = _inside(
            item, "outcomeDeclaration", identifier=outcome, cardinality="single", baseType=base
        )
        _inside(_inside(kept, "defaultValue"), "value", value)
    body = _inside(item, "itemBody")
    if choices:
        asked = _inside(
            body, "choiceInteraction", responseIdentifier="RESPONSE", shuffle="false",
            maxChoices="1",
        )  # fmt: skip
        _inside(asked, "prompt", question.text)
        for text, choice in choices.items():
            _inside(asked, "simpleChoice", text, identifier=choice)
    else:
        _inside(body, "p", question.text)
        line = _inside(body, "p")
        _inside(line, "textEntryInteraction", responseIdentifier="RESPONSE", expectedLength="12")
    _processing(item, question, choices)
    for feedback, text in _feedback(question).items():
        told = _inside(
            item, "modalFeedback", outcomeIdentifier="FEEDBACK", identifier=feedback,
            showHide="show",
        )  # fmt: skip
        _inside(told, "p", text)
    return item


def _feedback(question: Drawn) -> dict[str, str]:
    wrong = {f"wrong{i}": wrong.says for i, wrong in enumerate(question.wrong)}
    return {"right": "Right.", **wrong, "other": "Walk it once more, one edge at a time."}


def _processing(item: Tree.Element, question: Drawn, choices: dict[str, str]) -> None:
    """The right answer scores 1; each misconception has its feedback."""
    condition = _inside(_inside(item, "responseProcessing"), "responseCondition")
    for i, given in enumerate([question.answer, *(wrong.gives for wrong in question.wrong)]):
        case = _inside(condition, "responseElseIf" if i else "responseIf")
        if choices:
            test = _inside(case, "match")
            _inside(test, "baseValue", choices[str(given)], baseType="identifier")
        else:
            close = f"{question.tolerance:g}"
            test = _inside(case, "equal", toleranceMode="absolute", tolerance=f"{close} {close}")
            _inside(test, "baseValue", plain_number(given), baseType="float")
        _inside(test, "variable", identifier="RESPONSE")
        if i == 0:
            _set(case, "SCORE", "1", "float")
        _set(case, "FEEDBACK", f"wrong{i - 1}" if i else "right", "identifier")


def _set(case: Tree.Element, outcome: str, value: str, base: str) -> None:
    _inside(_inside(case, "setOutcomeValue", identifier=outcome), "baseValue", value, baseType=base)


# -- the test and the manifest ---------------------------------------------------------------------


def _test(quiz: Quiz, items: list[str]) -> Tree.Element:
    title = " ".join(f"Quiz for {quiz.seed}".split())
    test = _root("assessmentTest", QTI, identifier="quiz", title=title)
    kept = _inside(
        test, "outcomeDeclaration", identifier="SCORE", cardinality="single", baseType="float"
    )
    _inside(_inside(kept, "defaultValue"), "value", "0")
    part = _inside(
        test, "testPart", identifier="part", navigationMode="nonlinear",
        submissionMode="individual",
    )  # fmt: skip
    section = _inside(part, "assessmentSection", identifier="section", title=title, visible="true")
    for name in items:
        _inside(section, "assessmentItemRef", identifier=name, href=f"items/{name}.xml")
    total = _inside(_inside(test, "outcomeProcessing"), "setOutcomeValue", identifier="SCORE")
    _inside(_inside(total, "sum"), "testVariables", variableIdentifier="SCORE")
    return test


def _manifest(items: list[str]) -> Tree.Element:
    manifest = _root("manifest", PACKAGE, identifier="gradwalk-quiz")
    about = _inside(manifest, "metadata")
    _inside(about, "schema", "QTIv2.1 Package")
    _inside(about, "schemaversion", "1.0.0")
    _inside(manifest, "organizations")
    resources = _inside(manifest, "resources")
    test = _inside(
        resources, "resource", identifier="test", type="imsqti_test_xmlv2p1", href="test.xml"
    )
    _inside(test, "file", href="test.xml")
    for name in items:
        _inside(test, "dependency", identifierref=name)
    for name in items:
        path = f"items/{name}.xml"
        item = _inside(
            resources, "resource", identifier=name, type="imsqti_item_xmlv2p1", href=path
        )
        _inside(item, "file", href=path)
    return manifest
