"""What the api answers: the same as Python's own tools, within limits, with clear errors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.course.catalogue import Catalogue
from gradwalk.course.checker import process
from gradwalk.course.checker.grading import starter
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.file import decode, describe, read_trace
from gradwalk.studio import answers, sessions
from tests.studio.serving import (
    Served,
    scalar_trace,
    serve,
    sick_trace,
    tensor_trace,
    trace_bytes,
)

DIAMOND = "b = a + 1; c = 3·a; d = b·c"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return serve(tmp_path_factory.mktemp("static"))


def described(trace: gw.Trace) -> Any:
    """As it is in JSON."""
    return json.loads(json.dumps(describe(trace)[0]))


def api(session: sessions.Session, what: str) -> str:
    return f"/api/sessions/{session.id}/{what}"


# -- the page ----------------------------------------------------------------------------------


def boot_of(html: bytes) -> dict[str, Any]:
    start = html.index(b'id="boot">') + len(b'id="boot">')
    found: dict[str, Any] = json.loads(html[start : html.index(b"</script>", start)])
    return found


def test_the_page_names_the_session_to_open(tmp_path: Path) -> None:
    served = serve(tmp_path)
    assert boot_of(served.client.get("/").body)["session"] is None
    first, second = served.show(scalar_trace()), served.show(scalar_trace())
    boot = boot_of(served.client.get("/").body)
    assert boot == {
        "mode": "server",
        "version": gw.__version__,
        "document": None,
        "session": second.id,
        "languages": Catalogue().languages,
    }
    assert boot_of(served.client.get(f"/?session={first.id}").body)["session"] == first.id
    assert boot_of(served.client.get("/?session=nobody").body)["session"] == second.id


def test_static_files_have_their_types(served: Served) -> None:
    types = {
        "/": "text/html",
        "/app.js": "text/javascript",
        "/app.css": "text/css",
        "/lessons/index.json": "application/json",
        "/lessons/en/strings.json": "application/json",
    }
    for path, kind in types.items():
        assert served.client.get(path).headers["content-type"].startswith(kind), path


def test_lessons_are_whatever_lies_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lessons" / "xx-test"
    folder.mkdir(parents=True)
    (folder / "strings.json").write_text('{"language.name": "Test"}', encoding="utf-8")
    (folder / "one.md").write_text("---\ntitle: One\nminutes: 3\norder: 1\n---\nText", "utf-8")
    served = serve(tmp_path / "static", catalogue=Catalogue([folder.parent]))
    index = served.client.get("/lessons/index.json").json()
    assert index["languages"]["xx-test"]["lessons"][0]["title"] == "One"
    assert served.client.get("/lessons/xx-test/one.md").body.endswith(b"Text")
    assert boot_of(served.client.get("/").body)["languages"] == {"xx-test": "Test"}


def test_a_page_that_was_not_built_says_so(tmp_path: Path) -> None:
    served = serve(tmp_path)
    (tmp_path / "app.js").unlink()
    assert "not built" in served.client.get("/app.js").error
    (tmp_path / "index.html").unlink()
    assert "make page" in served.client.get("/").error


# -- sessions ----------------------------------------------------------------------------------


def test_sessions_are_listed_oldest_first(tmp_path: Path) -> None:
    served = serve(tmp_path)
    one, two = served.show(scalar_trace(), "numbers"), served.show(tensor_trace(), "tensors")
    assert served.client.get("/api/sessions").json() == [
        {"id": one.id, "title": "numbers", "scalar": True, "nodes": 6},
        {"id": two.id, "title": "tensors", "scalar": False, "nodes": len(two.trace)},
    ]
    served.sessions.remove(one)
    assert len(served.client.get("/api/sessions").json()) == 1
    assert served.client.get(api(one, "trace")).status == 404


@pytest.mark.parametrize("trace", [scalar_trace(), tensor_trace()], ids=["scalar", "tensor"])
def test_the_description_is_that_of_a_trace_file(served: Served, trace: gw.Trace) -> None:
    session = served.show(trace)
    assert served.client.get(api(session, "trace")).json() == described(trace)


def test_the_document_of_an_export_has_the_arrays(served: Served) -> None:
    trace = tensor_trace()
    session = served.show(trace)
    found = served.client.get(api(session, "document")).json()
    assert (found["kind"], found["title"]) == ("trace", session.title)
    assert found["trace"] == described(trace)
    assert found["arrays"].keys() == session.arrays.keys() and found["arrays"]


def test_a_file_opened_in_the_page_can_be_asked_about(served: Served, tmp_path: Path) -> None:
    trace = tensor_trace()
    path = f"/api/sessions?title=my%20step{'p' * 1000}"
    answer = served.client.ask("POST", path, trace_bytes(trace, tmp_path))
    assert answer.status == 201
    session = served.sessions.get(answer.json()["id"])
    assert session is not None
    assert session.title.startswith("my stepp") and len(session.title) == sessions.LONGEST_TITLE
    assert served.client.get(api(session, "trace")).json() == described(trace)
    root = trace.root
    found = served.client.post(api(session, "why"), {"node": root}).json()
    assert found["name"] == "loss"


@pytest.mark.parametrize("form", ["description", "file"])
def test_a_description_can_be_asked_about(served: Served, tmp_path: Path, form: str) -> None:
    """And a file whose header has such a length that it begins as a description would."""
    trace = scalar_trace()
    content = json.dumps(described(trace)).encode()
    if form == "file":
        file, length = trace_bytes(trace, tmp_path), 0x227B
        header = file[8 : 8 + int.from_bytes(file[:8], "little")]
        content = length.to_bytes(8, "little") + header.ljust(length) + file[8 + len(header) :]
        assert content[:2] == b'{"'
    answer = served.client.ask("POST", "/api/sessions", content)
    assert answer.status == 201, answer
    session = served.sessions.get(answer.json()["id"])
    assert session is not None
    assert served.client.get(api(session, "trace")).json() == described(trace)
    assert served.client.ask("POST", "/api/sessions", b"{no description").status == 400


def test_only_the_last_files_are_kept(tmp_path: Path) -> None:
    served = serve(tmp_path / "static")
    shown = served.show(scalar_trace())
    content = trace_bytes(scalar_trace(), tmp_path)
    ids = [served.sessions.upload(content).id for _ in range(sessions.MOST_UPLOADS + 3)]
    kept = [session.id for session in served.sessions.all()]
    assert kept == [shown.id, *ids[3:]]
    assert served.sessions.latest is shown


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "only 0 bytes"),
        (b"PK\x03\x04 a zip file", "zip or pickle"),
        (b"\x93NUMPY....", "NumPy array"),
        (b"\xff" * 64, "does not begin like"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{", "cut off"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{}", "not a trace"),
    ],
    ids=["empty", "zip", "npy", "noise", "cut", "other"],
)
def test_a_bad_file_is_told_what_is_wrong(served: Served, content: bytes, said: str) -> None:
    answer = served.client.ask("POST", "/api/sessions", content)
    assert answer.status == 400
    assert said in answer.error and answer.error.startswith("the file cannot be loaded")


def test_a_trace_that_is_too_large_is_refused(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_NODES", 5)
    content = trace_bytes(scalar_trace(), tmp_path)
    answer = served.client.ask("POST", "/api/sessions", content)
    assert answer.status == 413 and "6 nodes" in answer.error
    with pytest.raises(answers.AnswerTooLarge, match="record a part"):
        served.show(scalar_trace())


# -- windows of arrays -------------------------------------------------------------------------


def numbers_of(values: Any) -> Any:
    return np.array([[float(v) for v in row] for row in values])


def test_a_window_is_a_slice_of_the_array(served: Served) -> None:
    session = served.show(tensor_trace())
    name, array = next((n, a) for n, a in session.arrays.items() if a.shape == (3, 5, 6))
    found = served.client.get(api(session, f"arrays/{name}?at=2&rows=1:4&columns=2:64")).json()
    assert (found["shape"], found["dtype"]) == ([3, 5, 6], "float32")
    assert (found["at"], found["rows"], found["columns"]) == ([2], [1, 4], [2, 6])
    assert np.array_equal(numbers_of(found["values"]), array[2, 1:4, 2:6].astype(float))
    whole = served.client.get(api(session, f"arrays/{name}")).json()
    assert np.array_equal(numbers_of(whole["values"]), array[0].astype(float))


def test_an_array_of_one_dimension_is_one_row() -> None:
    found = answers.window(np.arange(300.0), {"columns": "290:400"})
    assert (found["shape"], found["rows"], found["columns"]) == ([300], [0, 1], [290, 300])
    assert found["values"] == [list(range(290, 300))]


def test_numbers_that_json_lacks_are_text_in_a_window() -> None:
    array = np.array([[math.nan, math.inf], [-math.inf, 1.5]], "f4")
    found = answers.window(array, {})
    assert found["values"] == [["NaN", "Infinity"], ["-Infinity", 1.5]]
    assert answers.window(np.array([[True, False]]), {})["values"] == [[True, False]]


@pytest.mark.parametrize(
    "query",
    [
        "at=0,0",
        "at=",
        "at=3",
        "at=-1",
        "at=a",
        "at=0,",
        "at=99999999999999999999",
        "rows=0",
        "rows=:4",
        "rows=0:4:2",
        "rows=-4:0",
        "rows=0:1000",
        "rows=0:٣",
        "columns=0:4&rows=x",
        "other=1",
    ],
)
def test_a_window_that_is_not_there(served: Served, query: str) -> None:
    session = served.show(tensor_trace())
    name = next(n for n, a in session.arrays.items() if a.shape == (3, 5, 6))
    answer = served.client.get(api(session, f"arrays/{name}?{query}"))
    if query == "at=":
        assert answer.status == 200
    else:
        assert answer.status == 400 and answer.error


def test_a_window_behind_the_end_is_empty() -> None:
    found = answers.window(np.zeros((4, 4)), {"rows": "2:2", "columns": "9:12"})
    assert (found["rows"], found["columns"], found["values"]) == ([2, 2], [4, 4], [])


def test_there_is_no_such_array(served: Served) -> None:
    session = served.show(tensor_trace())
    assert served.client.get(api(session, "arrays/none")).status == 404
    assert served.client.get(api(session, "arrays/..%2Ftrace")).status == 404


# -- questions ---------------------------------------------------------------------------------


def test_why_is_what_python_says(served: Served) -> None:
    trace = scalar_trace()
    session = served.show(trace)
    found = served.client.post(api(session, "why"), {"node": 0}).json()
    assert found == json.loads(json.dumps(gw.why("a", trace).to_dict()))
    assert found["gradient"] == 15 and found["path_count"] == 2


@pytest.mark.slow
def test_why_of_one_element(served: Served) -> None:
    trace = tensor_trace()
    session = served.show(trace)
    node = trace.find("0.weight")
    found = served.client.post(api(session, "why"), {"node": node, "element": [2, 1]}).json()
    assert found["gradient"] == pytest.approx(float(trace.grad("0.weight")[2, 1]))
    assert found["index"] == [2, 1]


def test_a_count_beyond_what_javascript_holds_is_text(served: Served) -> None:
    y = x = gw.Value(1.0, label="x")
    for _ in range(60):
        y = y + y
    found = served.client.post(api(served.show(gw.record(y)), "why"), {"node": 0}).json()
    assert found["path_count"] == str(2**60)
    for _ in range(140):
        y = y * 1 + y
    trace = gw.record(y)
    found = served.client.post(api(served.show(trace), "why"), {"node": trace.find(x)}).json()
    assert found["path_count"] == "≈ 10^60"


def test_an_element_is_a_graph_of_numbers(served: Served, tmp_path: Path) -> None:
    trace = tensor_trace()
    session = served.show(trace)
    node = next(n.index for n in trace if n.op == "linear")
    found = served.client.post(api(session, "element"), {"node": node, "element": [1, 2, 3]}).json()
    expected = gw.element(trace, node, (1, 2, 3))
    assert found["trace"] == described(expected.trace)
    assert found["value"] == pytest.approx(float(trace.nodes[node].value[1, 2, 3]))
    assert len(found["inputs"]) == len(expected.inputs)


def test_a_composite_opens(served: Served) -> None:
    trace = tensor_trace()
    session = served.show(trace)
    node = next(n.index for n in trace if n.op == "softmax")
    found = served.client.post(api(session, "open"), {"node": node}).json()
    assert found["equal"] is True and found["steps"] == gw.open_op(trace, node).steps
    ops = [n["op"] for n in found["trace"]["nodes"] if n["op"]]
    assert ops == [n.op for n in gw.open_op(trace, node).trace if n.op]
    text = json.dumps(found["trace"])
    assert '"array"' not in text and '"thumbnail"' in text


def test_what_cannot_be_opened_says_so(served: Served) -> None:
    session = served.show(scalar_trace())
    assert "nothing in it to open" in served.client.post(api(session, "open"), {"node": 0}).error
    answer = served.client.post(api(session, "element"), {"node": 2, "element": []})
    assert answer.status == 400 and "single numbers already" in answer.error


def test_an_opened_graph_that_is_too_large(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_NODES_SENT", 3)
    trace = tensor_trace()
    node = next(n.index for n in trace if n.op == "linear")
    answer = served.client.post(
        api(served.show(trace), "element"), {"node": node, "element": [0, 0, 0]}
    )
    assert answer.status == 413 and "too many" in answer.error


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"node": None},
        {"node": -1},
        {"node": 1.0},
        {"node": True},
        {"node": "0"},
        {"node": [0]},
        {"node": 10**6},
        {"node": 10**30},
        {"node": 0, "output": 1},
        {"node": 0, "output": -1},
        {"node": 0, "element": 3},
        {"node": 0, "element": [0]},
        {"node": 0, "element": [0, 99]},
        {"node": 0, "element": [-1, 0]},
        {"node": 0, "element": [0, 0, 0]},
        {"node": 0, "element": ["0", "0"]},
        {"node": 0, "element": [[0], 0]},
        {"node": 0, "more": 1},
    ],
    ids=str,
)
def test_a_question_that_makes_no_sense(served: Served, question: dict[str, Any]) -> None:
    session = served.show(tensor_trace())
    for what in ("why", "element"):
        answer = served.client.post(api(session, what), question)
        assert answer.status == 400 and answer.error
    assert served.client.get("/api/sessions").status == 200


# -- health ------------------------------------------------------------------------------------


def test_findings_name_their_nodes(served: Served) -> None:
    trace = sick_trace()
    (found,) = served.client.get(api(served.show(trace), "health")).json()
    (finding,) = gw.health(None, trace).findings
    assert (found["kind"], found["layer"]) == ("vanishing", finding.layer)
    assert (found["text"], found["chain"], found["fix"]) == (
        finding.message,
        finding.chain,
        finding.change,
    )
    assert found["line"] == str(finding.line) and "h = layer(h).sigmoid()" in found["line"]
    ops = {trace.nodes[node].op for node in found["nodes"]}
    assert ops == {"sigmoid", "linear"} and len(found["nodes"]) == 12


def test_the_first_cause_of_a_nan_is_a_finding(served: Served) -> None:
    p = gw.Value(0.0, label="p")
    trace = gw.record(0 * p.log())
    (found,) = served.client.get(api(served.show(trace), "health")).json()
    assert found["kind"] == "nan"
    assert trace.nodes[found["nodes"][0]].op == "log"
    assert found["fix"] and "log(0)" in found["text"]
    assert found["line"].endswith("trace = gw.record(0 * p.log())")


def test_what_is_healthy_has_no_finding(served: Served) -> None:
    for trace in (scalar_trace(), tensor_trace()):
        assert served.client.get(api(served.show(trace), "health")).json() == []


def test_without_a_backward_pass_nothing_is_called_healthy(served: Served) -> None:
    with gw.record() as trace:
        gw.ones(2, requires_grad=True) * 3
    (found,) = served.client.get(api(served.show(trace), "health")).json()
    assert found["kind"] == "no backward pass" and "backward()" in found["fix"]
    assert found["line"] is None


def test_a_detached_parameter_is_a_finding_and_why_names_the_cut(served: Served) -> None:
    gw.manual_seed(0)
    cut, used = gw.nn.Linear(3, 3), gw.nn.Linear(3, 1)
    model = gw.nn.Sequential(cut, used)
    with gw.record() as trace:
        used(cut(gw.randn(4, 3)).detach()).square().mean().backward()
    weight = trace.find(cut.weight)
    session = served.show(trace)
    (found,) = served.client.get(api(session, "health")).json()
    assert found["kind"] == "no gradient"
    assert found["layer"].split(", ") == [trace.name(trace.find(p)) for p in cut.parameters()]
    assert trace.nodes[found["nodes"][0]].op == "detach" and weight in found["nodes"]
    assert found["line"].endswith("used(cut(gw.randn(4, 3)).detach()).square().mean().backward()")
    answer = served.client.post(api(session, "why"), {"node": weight})
    assert answer.status == 400 and "detach() passes on the values" in answer.error
    assert (
        model[1] is used
        and served.client.post(api(session, "why"), {"node": trace.find(used.weight)}).json()
    )


def test_parameters_made_or_updated_inside_the_recording_are_not_accused(served: Served) -> None:
    with gw.record() as trace:
        model = gw.nn.Linear(3, 1)  # its initialisation is recorded too
        optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(gw.ones(4, 3)).square().mean().backward()
            optimizer.step()
    kinds = [f["kind"] for f in served.client.get(api(served.show(trace), "health")).json()]
    assert "no gradient" not in kinds


def test_the_node_to_look_at_first_is_the_one_named(served: Served) -> None:
    trace = sick_trace()  # the first layer gets too little
    (found,) = served.client.get(api(served.show(trace), "health")).json()
    assert found["nodes"][0] == min(n.index for n in trace.nodes if n.op == "sigmoid")


# -- expressions -------------------------------------------------------------------------------


def test_walk_is_pythons_own_answer(served: Served) -> None:
    found = served.client.post("/api/walk", {"source": DIAMOND, "values": {"a": 2}}).json()
    trace = parse(DIAMOND).build(a=2).trace()
    assert found == {"trace": described(trace), "assumed": [], "unused": [], "order": None}
    found = served.client.post("/api/walk", {"source": "u = 3·x; x·x"}).json()
    assert found["assumed"] == ["x"] and found["unused"] == ["u"]


@pytest.mark.parametrize(
    "order, overwrite, got",
    [
        (["d", "b", "c"], False, 15),
        (["b", "d", "c"], False, 9),
        ("breadth-first", False, 15),
        ("d b c", True, 9),
        ([5, 4, 2], False, 15),
        ([["d", "b", "c"], ["d", "b", "c"]], False, 60 - 15),
        ([], False, 0),
    ],
    ids=str,
)
def test_orders(served: Served, order: Any, overwrite: bool, got: float) -> None:
    question = {"source": DIAMOND, "values": {"a": 2}, "order": order, "overwrite": overwrite}
    report = served.client.post("/api/walk", question).json()["order"]
    trace = parse(DIAMOND).build(a=2).trace()
    run = gw.run_order(trace, order, overwrite=overwrite)
    assert report == json.loads(json.dumps(run.to_dict()))
    (a,) = [node for node in report["nodes"] if node["name"] == "a"]
    assert a["got"] == got == run["a"].got


@pytest.mark.parametrize(
    "value, number",
    [
        (2, 2.0),
        (-1.5, -1.5),
        ("NaN", math.nan),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ({"float": "-inf"}, -math.inf),
        (10**400, math.inf),
    ],
    ids=str,
)
def test_values_may_be_what_json_cannot_write(served: Served, value: Any, number: float) -> None:
    found = served.client.post("/api/walk", {"source": "x·1", "values": {"x": value}}).json()
    recorded = decode(found["trace"]["nodes"][0]["values"][0])
    assert recorded == number or (math.isnan(recorded) and math.isnan(number))


def test_an_expression_error_has_its_place(served: Served) -> None:
    answer = served.client.post("/api/walk", {"source": "a = 1\ny = 2x"})
    assert answer.status == 400
    assert answer.json() == {
        "error": "'x' follows a number without an operator",
        "line": 2,
        "column": 6,
        "hint": "write 2*x",
    }


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"source": None},
        {"source": 3},
        {"source": ["x"]},
        {"source": ""},
        {"source": "x" * 10_001},
        {"source": "__import__('os').system('true')"},
        {"source": "().__class__"},
        {"source": "lambda: 0"},
        {"source": "x[0]"},
        {"source": "f'{x}'"},
        {"source": "x", "values": []},
        {"source": "x", "values": {"x": None}},
        {"source": "x", "values": {"x": "2"}},
        {"source": "x", "values": {"x": True}},
        {"source": "x", "values": {"x": {"float": 3, "y": 1}}},
        {"source": "x", "values": {"y": 1}},
        {"source": "x·x", "order": {}},
        {"source": "x·x", "order": 3},
        {"source": "x·x", "order": [None]},
        {"source": "x·x", "order": [0.5]},
        {"source": "x·x", "order": [[["x"]]]},
        {"source": "x·x", "order": [99]},
        {"source": "x·x", "order": ["nobody"]},
        {"source": "x·x", "order": "nobody"},
        {"source": "x·x", "order": [0] * 10_001},
        {"source": "x·x", "order": [], "overwrite": 1},
        {"source": "x", "more": 1},
    ],
    ids=lambda question: str(question)[:60],
)
def test_an_expression_that_cannot_be_walked(served: Served, question: dict[str, Any]) -> None:
    answer = served.client.post("/api/walk", question)
    assert answer.status == 400 and answer.error


def test_reading_bytes_and_a_file_give_the_same(tmp_path: Path) -> None:
    content = trace_bytes(tensor_trace(), tmp_path)
    trace, description, arrays = read_trace(content, Path("x"))
    assert description == described(trace)
    assert arrays.keys() == describe(trace)[1].keys()


# -- a learner's engine --------------------------------------------------------------------------


def test_an_engine_is_checked_as_on_the_command_line(served: Served) -> None:
    begun = served.client.get("/api/check").json()["starter"]
    assert begun == starter()
    found = served.client.post("/api/check", {"source": begun}).json()
    assert found["points"] == 0 and found["mistakes"][0]["key"] == "unwritten"
    found = served.client.post("/api/check", {"source": "import os\nos.remove('x')"}).json()
    assert found["reason"].startswith("Not graded: line 1 imports os")
    for question in ({}, {"source": 3}, {"source": "", "path": "x"}):
        assert served.client.post("/api/check", question).status == 400


def test_an_engine_is_not_run_where_nothing_confines_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ASKED_FOR", ())
    source = {"source": "raise SystemError('it ran')"}
    found = served.client.post("/api/check", source).json()
    assert "this system does not prevent" in found["reason"] and "it ran" not in found["reason"]
