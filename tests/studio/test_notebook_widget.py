"""The studio in a notebook: as an anywidget, and as a sandboxed frame where there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import traitlets
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.expression.tokens import ExpressionError
from gradwalk.studio.notebook import StudioFrame
from gradwalk.studio.notebook_widget import StudioWidget
from tests.project.checkout import run_here
from tests.studio.serving import scalar_trace, tensor_trace
from tests.studio.test_export import NASTY, Reader, sha256
from tests.studio.watched import number, same

VIEW = "application/vnd.jupyter.widget-view+json"
PRODUCTS = "e = a·b; d = e + c; L = d·f"
PRODUCTS_AT = {"a": 2.0, "b": -3.0, "c": 5.0, "f": -2.0}


class Outside(HTMLParser):
    """The elements of an output, and the attributes of its one frame."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.frame: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "iframe":
            self.frame = dict(attrs)


def check_alone(output: str) -> Reader:
    """An output that is one sandboxed frame, whose page refers to nothing outside itself."""
    outside = Outside(output)
    assert outside.tags == ["iframe"]
    assert set(outside.frame) == {"title", "sandbox", "style", "srcdoc"}
    assert outside.frame["sandbox"] == "allow-scripts"
    page = Reader(outside.frame["srcdoc"])
    links = [
        value
        for _, attrs in page.elements
        for name, value in attrs.items()
        if name in ("src", "href", "srcset", "action", "data", "poster")
    ]
    assert links == ["data:,"]
    assert not re.search(r"url\((?!['\"]?data:)|@import", page.text("style"))
    assert page.policy["default-src"] == page.policy["connect-src"] == "'none'"
    assert page.policy["script-src"] == sha256(page.program)
    assert page.boot["mode"] == "widget"
    return page


@pytest.fixture
def no_anywidget(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "anywidget", None)


# -- in Python ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_core_imports_nothing_of_it(tmp_path: Path) -> None:
    code = """
import sys
import gradwalk
import gradwalk.studio.notebook
print(*sorted({"anywidget", "ipywidgets", "traitlets", "IPython"} & sys.modules.keys()))
"""
    assert run_here(code, cwd=tmp_path).split() == []


def test_without_anywidget_it_is_a_frame(no_anywidget: None) -> None:
    found = gw.studio.widget(scalar_trace(), "the diamond", height=300)
    assert isinstance(found, StudioFrame)
    output = found._repr_html_()
    assert "height:300px" in output
    assert check_alone(output).boot["document"]["title"] == "the diamond"
    with pytest.raises(AttributeError, match=r"pip install 'gradwalk\[jupyter\]'"):
        found.position
    with pytest.raises(AttributeError, match="no attribute 'elsewhere'"):
        found.elsewhere
    assert not hasattr(found, "_repr_mimebundle_")  # notebooks ask for many things


def test_with_it_both_forms_are_given() -> None:
    found = gw.studio.widget(PRODUCTS, values=PRODUCTS_AT)
    assert isinstance(found, StudioWidget)
    data, _ = found._repr_mimebundle_() or ({}, {})
    assert data[VIEW]["model_id"] == found.model_id
    document = check_alone(data["text/html"]).boot["document"]
    assert document == {
        "kind": "expression", "title": PRODUCTS, "source": PRODUCTS, "values": PRODUCTS_AT,
    }  # fmt: skip
    assert repr(found) == f"<{PRODUCTS} in the studio: step 0>" == data["text/plain"]


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_no_text_breaks_out_of_the_frame(no_anywidget: None, text: str) -> None:
    a = gw.Value(3.0, label=text)
    output = gw.studio.widget(a * a, text)._repr_html_()
    assert check_alone(output).boot["document"]["trace"]["nodes"][0]["label"] == text


def test_values_are_those_of_the_leaves() -> None:
    assert gw.studio.widget(PRODUCTS, values={"a": 4}).values == {"a": 4, "b": 1, "c": 1, "f": 1}
    assert gw.studio.widget(scalar_trace()).values == {"a": 2.0}
    assert gw.studio.widget(tensor_trace()).values == {}
    found = gw.studio.widget("a·b", values={"a": math.inf})
    found.values = {"a": "NaN", "b": "-Infinity"}  # as the page writes them
    assert math.isnan(found.values["a"]) and found.values["b"] == -math.inf
    assert found.get_state("values") == {"values": {"a": "NaN", "b": "-Infinity"}}
    with pytest.raises(traitlets.TraitError, match="numbers by the leaves' names"):
        found.values = {"a": "much"}
    with pytest.raises(traitlets.TraitError):
        found.position = -1


def test_what_cannot_be_shown_says_why() -> None:
    with pytest.raises(ExpressionError, match="no place in an expression"):
        gw.studio.widget("a $ b")
    with pytest.raises(TypeError, match="Value or a Tensor"):
        gw.studio.widget(3)
    with pytest.raises(TypeError, match="has its numbers already"):
        gw.studio.widget(scalar_trace(), values={"a": 2})


def test_large_arrays_stay_out_of_the_notebook() -> None:
    found = gw.studio.widget(tensor_trace(), budget=100)
    kept = Reader(found._page).boot["document"]["arrays"]
    assert sum(len(array["base64"]) for array in kept.values()) <= 100 * 4 / 3 + 4 * len(kept)


# -- in a notebook that runs -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Jupyter's own, about its event loop and file permissions
def test_a_notebook_shows_both_forms() -> None:
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "import gradwalk as gw\na = gw.Value(3.0, label='a')\nf = a * a",
        "w = gw.studio.widget(f, 'a²')\nw",
        "w.position = 2\nw.selection = 'a'\nw.values = {'a': 5}\nprint(w.position, w.values, w)",
        "display(gw.studio.widget('b + b', height=200), gw.studio.widget('c·c'))",
        "import sys\nsys.modules['anywidget'] = None\ngw.studio.widget(f)",
        "gw.show(f)",
        "walk = gw.walk(f)\nwalk",
        "gw.studio.show(f, open_browser=False, port=0).stop()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert not [o for of_cell in outputs for o in of_cell if o.output_type == "error"]

    (shown,) = outputs[1]
    check_alone(shown.data["text/html"])
    assert outputs[2][0].text.split("\n")[0] == "2 {'a': 5.0} <a² in the studio: step 2>"
    assert [set(o.data) for o in outputs[3]] == [{VIEW, "text/html", "text/plain"}] * 2
    (frame,) = outputs[4]
    assert set(frame.data) == {"text/html", "text/plain"}
    assert check_alone(frame.data["text/html"]).boot["document"]["kind"] == "trace"
    # What a notebook showed before still is a picture.
    for (picture,) in outputs[5:7]:
        assert VIEW not in picture.data and "<svg" in picture.data["text/html"]
    assert "http://127.0.0.1:" in outputs[7][0].text

    (kept,) = notebook.metadata["widgets"].values()
    state = kept["state"][shown.data[VIEW]["model_id"]]["state"]
    assert (state["position"], state["selection"], state["values"]) == (2, "a", {"a": 5.0})
    assert "export default" in state["_esm"] or "as default" in state["_esm"]
    assert len({o.data[VIEW]["model_id"] for o in [shown, *outputs[3]]}) == 3


# -- in the browser ----------------------------------------------------------------------------

# What anywidget gives to a module, and the module loaded as anywidget does: from a Blob.
MOUNT = """async ({name, state}) => {
  const heard = new Map(), changed = {};
  const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const model = {
    sent: [],
    get: (key) => state[key],
    set(key, value) {
      if (equal(state[key], value)) return;
      state[key] = changed[key] = value;
      for (const call of heard.get(`change:${key}`) ?? []) call();
    },
    save_changes() {
      const news = JSON.parse(JSON.stringify(changed));
      if (Object.keys(news).length) model.sent.push(news);
      for (const key of Object.keys(changed)) delete changed[key];
    },
    on: (event, call) => heard.set(event, [...(heard.get(event) ?? []), call]),
    off: (event, call) => heard.set(event, (heard.get(event) ?? []).filter((c) => c !== call)),
  };
  const text = new Blob([state._esm], {type: "text/javascript"});
  const widget = (await import(URL.createObjectURL(text))).default;
  const el = document.createElement("section");
  el.id = name;
  document.body.append(el);
  window.widgets ??= {};
  window.widgets[name] = {model, el, view: (el) => widget.render({model, el}), heard};
  window.widgets[name].close = widget.render({model, el});
}"""


class Mounted:
    """A widget on both ends: the object of Python, and its view in the browser."""

    def __init__(self, page: Any, name: str, widget: StudioWidget) -> None:
        self.page, self.name, self.widget = page, name, widget
        page.evaluate(MOUNT, {"name": name, "state": widget.get_state()})
        self.wait("[data-position]")

    @property
    def frame(self) -> Any:
        return self.page.frame_locator(f"#{self.name} iframe")

    def wait(self, selector: str) -> None:
        self.frame.locator(selector).first.wait_for(state="attached")

    def press(self, key: str) -> None:
        self.frame.locator("#main").press(key)

    def read(self, selector: str, attribute: str) -> str:
        return str(self.frame.locator(selector).get_attribute(attribute))

    def shown(self, node: str, what: str) -> float | None:
        return number(self.read(f'[data-node="{node}"]', f"data-{what}"))

    def hear(self, until: str) -> StudioWidget:
        """Wait until the model is so, and let Python know of everything it was sent."""
        model = f"window.widgets.{self.name}.model"
        self.page.wait_for_function(f"(() => {{ const model = {model}; return {until}; }})()")
        for news in self.page.evaluate(f"{model}.sent.splice(0)"):
            self.widget.set_state(news)
        return self.widget

    def tell(self, **traits: Any) -> None:
        """Set traits in Python, and bring the model what it is told of them."""
        for trait, value in traits.items():
            setattr(self.widget, trait, value)
            news = [self.name, trait, self.widget.get_state(trait)[trait]]
            self.page.evaluate("([name, k, v]) => window.widgets[name].model.set(k, v)", news)


@pytest.fixture
def bare(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """An empty page from disk, with no network; nothing may be said on its console."""
    (tmp_path / "bare.html").write_text("<!doctype html><meta charset=utf-8>", encoding="utf-8")
    context = browser.new_context(viewport={"width": 1100, "height": 1500}, offline=True)
    context.set_default_timeout(10_000)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "bare.html").as_uri())
    yield page
    context.close()
    assert not messages
    assert not [url for url in asked if not url.startswith(("file:", "blob:", "data:", "about:"))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["expression", "value"])
def test_the_frame_alone_is_live(bare: Any, tmp_path: Path, no_anywidget: None, kind: str) -> None:
    program = parse(PRODUCTS)
    if kind == "expression":
        found = gw.studio.widget(PRODUCTS, values=PRODUCTS_AT)
    else:
        found = gw.studio.widget(program.build(PRODUCTS_AT).root)
    path = tmp_path / "output.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{found._repr_html_()}", encoding="utf-8")
    bare.goto(path.as_uri())
    frame = bare.frame_locator("iframe")
    frame.locator("[data-position]").wait_for()
    frame.locator("#main").press("ArrowRight")
    frame.locator('[data-position="1"]').wait_for()
    frame.locator("#main").press("End")
    check_all(frame, program.build(PRODUCTS_AT))
    frame.locator('[data-node="a"]').first.click()
    frame.locator('[data-leaf="a"]').first.fill("4")
    frame.locator('[data-node="a"][data-value="4"]').wait_for(state="attached")
    check_all(frame, program.build({**PRODUCTS_AT, "a": 4.0}))


def check_all(frame: Any, built: Any) -> None:
    """Every node's value and gradient, as Python has them."""
    built.root.backward()
    for name, value in built.names.items():
        node = frame.locator(f'[data-node="{name}"]')
        assert same(number(node.get_attribute("data-value")), value.data), name
        assert same(number(node.get_attribute("data-grad")), value.grad), name


@pytest.mark.slow
def test_the_widget_steps_and_python_knows(bare: Any) -> None:
    found = Mounted(bare, "one", gw.studio.widget(PRODUCTS, values=PRODUCTS_AT))
    steps = found.hear("model.get('steps') > 0").steps
    assert steps == 7 + 1 + 3  # every node forward, the seed, every operation backward
    found.press("ArrowRight")
    found.press("ArrowRight")
    assert found.hear("model.get('position') === 2").position == 2
    found.press("End")
    assert found.hear(f"model.get('position') === {steps}").position == steps
    check_all(found.frame, parse(PRODUCTS).build(PRODUCTS_AT))
    found.frame.locator('[data-node="a"]').first.click()
    assert found.hear("model.get('selection')").selection == "a"
    found.frame.locator('[data-leaf="a"]').first.fill("4")
    values = {**PRODUCTS_AT, "a": 4.0}
    assert found.hear("model.get('values').a === 4").values == values
    check_all(found.frame, parse(PRODUCTS).build(values))
    # Only what changed is sent: what Python sets in the meantime is not undone.
    found.press("Home")
    bare.wait_for_function("window.widgets.one.model.sent.length")
    assert bare.evaluate("window.widgets.one.model.sent") == [{"position": 0}]


@pytest.mark.slow
def test_python_sets_and_the_page_follows(bare: Any) -> None:
    found = Mounted(bare, "one", gw.studio.widget(PRODUCTS, values=PRODUCTS_AT))
    found.tell(values={"c": 1.5}, position=5, selection="L>d>c")
    found.wait('[data-position="5"]')
    found.wait('[data-node="c"][data-value="1.5"]')
    values = {**PRODUCTS_AT, "c": 1.5}
    assert found.hear("'a' in model.get('values')").values == values  # all of them again
    assert (found.widget.position, found.widget.selection) == (5, "L>d>c")
    found.tell(position=999)
    steps = found.hear("model.get('position') < 999").position
    assert steps == found.widget.steps > 5
    check_all(found.frame, parse(PRODUCTS).build(values))
    found.tell(values={"a": math.nan, "b": -math.inf})
    found.wait('[data-node="a"][data-value="NaN"]')
    assert math.isnan(found.hear("model.get('values').c === 1.5").values["a"])
    assert found.widget.values["b"] == -math.inf
    found.tell(values={"nobody": 1.0})
    found.wait(".notices")
    expect(found.frame.locator(".notices")).to_contain_text("nobody", use_inner_text=True)
    found.tell(height=400)
    assert bare.locator("#one iframe").bounding_box()["height"] == 400


@pytest.mark.slow
def test_several_do_not_disturb_each_other(bare: Any) -> None:
    one = Mounted(bare, "one", gw.studio.widget("f = a·a", values={"a": 3}, height=700))
    two = Mounted(bare, "two", gw.studio.widget(scalar_trace(), height=700))
    one.press("End")
    one.hear("model.get('position') === model.get('steps')")
    assert (one.shown("a", "grad"), two.read("[data-position]", "data-position")) == (6.0, "0")
    two.tell(values={"a": 5.0}, position=2)
    two.wait('[data-node="a"][data-value="5"]')
    assert one.shown("a", "value") == 3.0 and one.widget.values == {"a": 3.0}

    # A second view of the same widget shows the same; both follow, and they do not quarrel.
    bare.evaluate("""() => {
      const el = document.createElement("section");
      el.id = "again";
      document.body.append(el);
      window.widgets.one.view(el);
    }""")
    again = bare.frame_locator("#again iframe")
    again.locator(f'[data-position="{one.widget.position}"]').wait_for()
    for _ in range(3):
        again.locator("#main").press("ArrowLeft")
    left = one.widget.position - 3
    one.wait(f'[data-position="{left}"]')
    one.press("ArrowRight")
    again.locator(f'[data-position="{left + 1}"]').wait_for()
    bare.wait_for_timeout(300)
    assert one.hear("true").position == left + 1
    bare.wait_for_timeout(300)
    assert bare.evaluate("window.widgets.one.model.sent") == []

    # A notebook moves outputs about: the frame begins anew, where it was.
    bare.evaluate("document.body.append(document.getElementById('two'))")
    two.wait('[data-position="2"]')
    two.wait('[data-node="a"][data-value="5"]')
    bare.evaluate("window.widgets.two.close()")
    expect(bare.locator("#two iframe")).to_have_count(0)
    assert bare.evaluate("[...window.widgets.two.heard.values()].flat().length") == 0


@pytest.mark.slow
def test_a_recording_of_tensors_is_walked(bare: Any) -> None:
    trace = tensor_trace()
    found = Mounted(bare, "one", gw.studio.widget(trace))
    computed = sum(not node.is_leaf for node in trace)
    assert found.hear("model.get('steps') > 0").steps == computed + 1 + len(trace.sweeps[0].visits)
    found.press("ArrowRight")
    assert found.hear("model.get('position') === 1").position == 1
    found.tell(position=3, selection="loss")
    found.wait('[data-position="3"]')
    assert found.hear("true").values == {}


@pytest.mark.slow
def test_it_is_as_dark_as_the_notebook(bare: Any) -> None:
    bare.evaluate("document.body.style.color = 'white'")
    Mounted(bare, "one", gw.studio.widget("a·a"))
    inner = next(f for f in bare.frames if f != bare.main_frame)
    # By selector: the frame's own policy forbids to evaluate text in it, which waiting would do.
    inner.wait_for_selector("html[data-theme=dark]", state="attached")
    bare.evaluate("document.body.style.color = 'black'")
    inner.wait_for_selector("html[data-theme=light]", state="attached")
