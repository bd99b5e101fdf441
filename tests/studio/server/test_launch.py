"""Starting the studio: ports, hosts, browsers, `show`, the command, and what is said when not."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

import gradwalk as gw
from gradwalk.cli import app
from gradwalk.studio import launch
from gradwalk.studio.launch import Studio, StudioError, expression_link, listening, open_in_browser
from gradwalk.studio.sessions import Sessions
from tests.project.checkout import ROOT, run_here
from tests.studio.serving import running, scalar_trace, tensor_trace


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No test opens a window on the machine it runs on."""
    opened: list[str] = []
    monkeypatch.setattr(launch, "built", lambda: True)
    monkeypatch.setattr(launch, "open_in_browser", lambda url: opened.append(url) or True)
    return opened


# -- ports and hosts ---------------------------------------------------------------------------


def test_a_taken_port_is_an_error_if_it_was_asked_for(taken: int) -> None:
    with pytest.raises(StudioError, match=rf"port {taken} cannot be used: .*in use.*--port"):
        listening("127.0.0.1", taken)


def test_without_a_port_the_next_free_one_is_found(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "FIRST_PORT", taken)
    with listening("127.0.0.1", None) as found:
        assert found.getsockname()[0] == "127.0.0.1"
        assert found.getsockname()[1] != taken
    monkeypatch.setattr(launch, "TRIED", 1)
    with listening("127.0.0.1", None) as found:
        assert found.getsockname()[1] > 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "example.com", "127.0.0.2"])
def test_only_this_machine_is_served(host: str) -> None:
    with pytest.raises(StudioError, match="this machine only"):
        listening(host, 0)


@pytest.mark.parametrize("port", [65536, 100_000, -1])
def test_a_number_that_is_no_port(port: int) -> None:
    with pytest.raises(StudioError, match="from 0 to 65535"):
        listening("127.0.0.1", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_it_listens_on_the_loopback_interface(host: str) -> None:
    studio = Studio(Sessions(), 0, host)
    try:
        assert studio.running
        assert studio._socket.getsockname()[0] == "127.0.0.1"
        assert studio.url().startswith(f"http://127.0.0.1:{studio.port}/#token=")
        connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=10)
        connection.request("GET", "/api/sessions", headers={"X-Gradwalk-Token": studio.token})
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        studio.stop()
    assert not studio.running
    studio.stop()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", studio.port), timeout=1).close()


@pytest.mark.slow
def test_every_server_has_a_token_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch) as one, running(monkeypatch) as two:
        assert one.token != two.token and len(one.token) >= 32


def test_without_the_page_it_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "built", lambda: False)
    with pytest.raises(StudioError, match="make page"):
        Studio(Sessions(), 0)


@pytest.mark.parametrize("package", ["uvicorn", "starlette"])
def test_without_its_packages_it_names_them(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StudioError, match=f"needs {package}.*pip install"):
        Studio(Sessions(), 0)


def test_a_link_to_an_expression_is_one_the_page_reads() -> None:
    source = "y = a·b + c^2; z = y/(1 + y) & # ü"
    link = expression_link(source, {"a": 2.0, "b": -0.1, "c": 6.8813735870195432})
    read = parse_qs(link, keep_blank_values=True, strict_parsing=True)
    assert read["v"] == ["1"] and read["source"] == [source]
    pairs = dict(pair.split(":") for pair in read["set"][0].split(","))
    assert {n: float(v) for n, v in pairs.items()} == {"a": 2, "b": -0.1, "c": 6.8813735870195432}
    assert "+" not in link and " " not in link
    assert expression_link("x", {}) == "v=1&source=x"


# -- the browser -------------------------------------------------------------------------------


class Window:
    def __init__(self, works: bool = True) -> None:
        self.works = works
        self.opened: list[str] = []

    def open(self, url: str) -> bool:
        self.opened.append(url)
        return self.works


def test_a_browser_is_opened_where_there_is_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window()
    monkeypatch.setattr(webbrowser, "get", lambda: window)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not open_in_browser("http://127.0.0.1/")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_in_browser("http://127.0.0.1/") and window.opened == ["http://127.0.0.1/"]


def test_a_browser_of_the_terminal_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("lynx"))
    assert not open_in_browser("http://127.0.0.1/")


def test_no_browser_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "get", none)
    assert not open_in_browser("http://127.0.0.1/")


# -- show --------------------------------------------------------------------------------------


def boot_at(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    text = connection.getresponse().read().decode()
    connection.close()
    found: dict[str, Any] = json.loads(text.split('id="boot">')[1].split("</script>")[0])
    return found


def test_show_starts_one_server_for_all(
    capsys: pytest.CaptureFixture[str], no_browser: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)  # whatever other tests began
    a = gw.Value(3.0, label="a")
    one = gw.studio.show(a * a, "a square", port=0)
    two = gw.studio.show(tensor_trace(), open_browser=False)
    try:
        printed = capsys.readouterr().out
        assert f"a square: {one.url}" in printed and f"Sequential: {two.url}" in printed
        assert "wait=True" in printed
        assert no_browser == [one.url]
        assert urlsplit(one.url).netloc == urlsplit(two.url).netloc
        assert boot_at(one.url)["session"] != boot_at(two.url)["session"]
        assert one._session.id == boot_at(one.url)["session"]
        assert "a square" in repr(one) and one.url in repr(one)
    finally:
        one.stop()
    assert boot_at(two.url)["session"] == two._session.id
    two.stop()
    with pytest.raises(OSError):
        boot_at(two.url)
    three = gw.studio.show(scalar_trace(), port=0)
    assert boot_at(three.url)["session"] == three._session.id
    three.stop()


def test_a_program_is_told_to_wait_and_a_notebook_is_not(
    capsys: pytest.CaptureFixture[str], no_browser: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = ModuleType("IPython")
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    for shell in (None, object()):  # imported by some library, and running
        monkeypatch.setattr(python, "get_ipython", itertools.repeat(shell).__next__, raising=False)
        gw.studio.show(scalar_trace(), port=0).stop()
        assert ("wait=True" in capsys.readouterr().out) is (shell is None)


def test_show_without_an_argument_is_the_last_recording() -> None:
    with gw.record() as trace:
        loss = (gw.ones(3, requires_grad=True) * 2).sum()
        loss.backward()
    shown = gw.studio.show(port=0)
    assert shown._session.trace is trace
    shown.stop()


def test_a_graph_that_is_gone_is_explained() -> None:
    loss = (gw.ones(3, requires_grad=True) ** 2).sum()
    loss.backward()
    gw.record(gw.Value(1.0) * 2)  # so that nothing recorded knows it
    with pytest.raises(gw.AutogradError, match=r"show\(loss\) before loss.backward"):
        gw.studio.show(loss, port=0)
    with pytest.raises(TypeError, match="Value or a Tensor"):
        gw.studio.show("a text", port=0)


def test_importing_gradwalk_and_its_studio_imports_no_server(tmp_path: Path) -> None:
    code = (
        "import sys, gradwalk.studio; gradwalk.studio.show; "
        "print(*({'starlette', 'uvicorn', 'anyio', 'webbrowser'} & set(sys.modules)))"
    )
    assert run_here(code, tmp_path).split() == []


# -- the command -------------------------------------------------------------------------------


def command(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["studio", *arguments])


def test_the_command_says_what_is_wrong(tmp_path: Path, taken: int) -> None:
    bad = tmp_path / "bad.trace"
    bad.write_bytes(b"not a trace at all")
    program = tmp_path / "model.py"
    program.write_text("def loss():\n    return 3\n", encoding="utf-8")
    cases = {
        ("none.trace",): "there is no file none.trace",
        (str(bad),): "cannot be loaded",
        (str(bad), "x=2"): "a trace contains its values",
        ("none.py:loss",): "there is no file none.py",
        (f"{program}:other",): "has no function other",
        (f"{program}:loss",): "must return the loss",
        ("2x",): "Hint: write 2*x",
        ("x", "y=2"): "has no 'y' to set",
        ("x*x", "--host", "0.0.0.0"): "this machine only",
        ("x*x", "--port", str(taken)): f"port {taken} cannot be used",
        ("--export", str(tmp_path / "page.html")): "--export needs a graph",
        ("x*x", "--export", str(tmp_path / "none" / "page.html")): "none: there is no such folder",
    }
    for arguments, said in cases.items():
        result = command(*arguments)
        assert result.exit_code == 2, arguments
        assert said in result.output, arguments
        assert "Traceback" not in result.output


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[Studio]:
    """Servers that do not wait for Ctrl+C, but are asked for their first answer and end."""
    seen: list[Studio] = []

    def wait(self: Studio) -> None:
        seen.append(self)
        self.stop()

    monkeypatch.setattr(Studio, "wait", wait)
    return seen


def test_the_command_opens_an_expression_by_link(at_once: list[Studio]) -> None:
    result = command("tanh(x*w + b)", "x=2", "w=-3", "--no-browser", "--port", "0")
    assert result.exit_code == 0, result.output
    assert "(no value given, so set to 1: b)" in result.output
    (url,) = re.findall(r"gradwalk studio: (http://\S+)", result.output)
    fragment = parse_qs(urlsplit(url).fragment)
    assert fragment["token"] == [at_once[0].token]
    assert fragment["source"] == ["tanh(x*w + b)"] and fragment["set"] == ["x:2,w:-3"]
    assert at_once[0].sessions.all() == []


@pytest.mark.slow
def test_the_command_opens_a_trace_and_a_program(at_once: list[Studio], tmp_path: Path) -> None:
    path = tmp_path / "step.trace"
    gw.save_trace(tensor_trace(), path)
    program = tmp_path / "model.py"
    program.write_text("def loss(x):\n    return x * x\n", encoding="utf-8")
    for what, title, scalar in (
        (str(path), "step.trace", False),
        (f"{program}:loss", "model.py:loss", True),
    ):
        result = command(what, "--no-browser", "--port", "0")
        assert result.exit_code == 0, result.output
        (session,) = at_once.pop().sessions.all()
        assert (session.title, session.trace.scalar) == (title, scalar)
        assert f"?session={session.id}#token=" in result.output


def test_the_command_says_which_port_it_took(
    at_once: list[Studio], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradwalk.studio.launch.FIRST_PORT", taken)
    monkeypatch.setattr(sys.modules["gradwalk.cli.studio"], "FIRST_PORT", taken)
    result = command("--no-browser")
    assert f"(port {taken} is taken; using {at_once[0].port})" in result.output


@pytest.mark.slow
def test_make_run_ends_in_the_studio_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    # What `make test` hands to programs it starts would change what make prints here.
    outside = {n: v for n, v in os.environ.items() if n not in ("MAKEFLAGS", "MAKELEVEL", "ARGS")}
    recipe = subprocess.run(
        ["make", "--dry-run", "--always-make", "run"],
        cwd=ROOT,
        env=outside,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert recipe[-1].endswith("-m gradwalk studio")
    environment = {n: v for n, v in os.environ.items() if n not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = subprocess.Popen(
        [sys.executable, "-m", "gradwalk", "studio", "--port", "0"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A suite that runs in the background ignores Ctrl+C, and what it starts would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        first, second, third = (process.stdout.readline() for _ in range(3))
        assert first.startswith("gradwalk studio: http://127.0.0.1:"), first
        assert "no browser was found" in second and third == "Ctrl+C ends it\n"
        assert boot_at(first.split(": ", 1)[1].strip())["mode"] == "server"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert rest == "" and process.returncode == 0
