"""Run `make run` and `make test` as on a machine that has never seen gradwalk.

    make fresh                                          both, with every test
    make fresh ARGS=tests/studio/page/test_build.py     both, with some tests
    python tools/fresh.py --python /usr/bin/python3.12 --keep

We clone the last commit into a new folder. The commands get a new home folder, the system's PATH,
none of the user's variables, and DejaVu (Debian's fonts-dejavu-core) as the only installed fonts.
Package sources are a property of the machine, not of the checkout, so we keep variables and files
that name registries, proxies and certificates (REGISTRIES, CONFIGURATIONS below).

The script uses the Python, Node, Chromium and libraries that are already installed, so it cannot
show what a bare system lacks; `make test` then installs no browser. Nor can it show how other
systems and processors behave.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 1800  # for the setup and the start of the studio
REGISTRIES = re.compile(
    r"(https?|no|all)_proxy|pip_(index_url|extra_index_url|find_links|trusted_host|cert)"
    r"|pip_default_timeout|npm_config_(registry|cafile)|node_extra_ca_certs|ssl_cert_(file|dir)",
    re.IGNORECASE,
)
CONFIGURATIONS = {  # files that pip and npm would have found in the home folder
    "PIP_CONFIG_FILE": (".config/pip/pip.conf", ".pip/pip.conf"),
    "NPM_CONFIG_USERCONFIG": (".npmrc",),
}
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<dir>{folder}</dir>
<cachedir>{folder}/cache</cachedir>
<include ignore_missing="yes">/etc/fonts/conf.d</include>
</fontconfig>
"""


def main() -> int:
    """Clone, run, test; the exit status tells whether both succeeded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tests", nargs="*", help="what pytest is given; left out: everything")
    # In a virtual environment: the Python that created it.
    made_by = getattr(sys, "_base_executable", sys.executable)
    parser.add_argument("--python", default=made_by, help="the Python to make .venv with")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    given = parser.parse_args()
    # A background process ignores Ctrl-C, and programs that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="fresh machine "))  # a blank in the name must not matter
    folder.chmod(0o755)  # the temporary folder of the commands is below: others may pass
    try:
        return _in(folder, given.python, given.tests)
    finally:
        if given.keep:
            print(f"== kept: {folder}")
        else:
            shutil.rmtree(folder)


def _in(folder: Path, python: str, tests: list[str]) -> int:
    environment = _environment(folder)
    checkout = folder / "gradwalk"
    changed = subprocess.check_output(["git", "-C", ROOT, "status", "--porcelain"], text=True)
    if changed:
        print("== not in the clone, because not committed:", changed, sep="\n", end="")
    clone = ["git", "clone", "--quiet", ROOT, checkout]
    subprocess.run(clone, check=True, env=environment)
    print("== variables:", *sorted(environment), flush=True)
    make = ["make", "-C", str(checkout), "--no-print-directory", f"PYTHON={python}"]
    if not _studio_answers([*make, "run"], environment):
        return 1
    test = subprocess.run([*make, "test", f"ARGS={' '.join(tests)}"], env=environment)
    print(f"== make test ended with status {test.returncode}")
    return test.returncode


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with only a home, a PATH, fonts and registries."""
    home, fonts, temporary = (folder / name for name in ("home", "fonts", "tmp"))
    for path in (home, fonts, temporary):
        path.mkdir()
    for path in _dejavu():
        shutil.copy(path, fonts)
    (folder / "fonts.conf").write_text(FONTS.format(folder=fonts), encoding="utf-8")
    found = {name: value for name, value in os.environ.items() if REGISTRIES.fullmatch(name)}
    for name, places in CONFIGURATIONS.items():
        files = [os.environ.get(name, ""), *(str(Path.home() / place) for place in places)]
        if path := next((path for path in files if path and Path(path).is_file()), None):
            found[name] = path
    return found | {
        "HOME": str(home),
        "PATH": SYSTEM_PATH,
        "TMPDIR": str(temporary),
        "FONTCONFIG_FILE": str(folder / "fonts.conf"),
    }


def _dejavu() -> list[str]:
    """The files of fonts-dejavu-core; empty if it is not installed (tests pass without it)."""
    if not shutil.which("dpkg"):
        return []
    listed = subprocess.run(["dpkg", "-L", "fonts-dejavu-core"], capture_output=True, text=True)
    return [path for path in listed.stdout.splitlines() if path.endswith(".ttf")]


def _studio_answers(command: list[str], environment: dict[str, str]) -> bool:
    """Start the studio, load the page as a browser would, stop it."""
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert started.stdout
    late = threading.Timer(SECONDS, os.killpg, (started.pid, signal.SIGKILL))
    late.start()
    loaded = []
    for line in started.stdout:
        print(line, end="", flush=True)
        if address := re.search(r"http://[\w.]+:\d+/", line):
            for name in ("", "app.js", "app.css", "fonts/text.woff2", "lessons/index.json"):
                with urllib.request.urlopen(address[0] + name, timeout=60) as answer:
                    loaded.append(f"{len(answer.read()):,} bytes of {name or 'the page'}")
            os.killpg(started.pid, signal.SIGTERM)
            break
    started.communicate()
    late.cancel()
    print("== make run answered:" if loaded else "== make run did not answer", ", ".join(loaded))
    return bool(loaded)


if __name__ == "__main__":
    sys.exit(main())
