"""The page: `static/index.html` with its data and content security policy.

A page is one of four modes. `server` and `site` load script, style and fonts from beside them;
`export` and `widget` hold all of it, so that they work from disk or inside a frame with no network
at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

from gradwalk import __version__
from gradwalk.course.catalogue import Catalogue

STATIC = Path(__file__).parent / "static"
TITLE = "gradwalk studio"
MODES = ("server", "site", "export", "widget")
SCORM = "scorm.js"
SELF_CONTAINED = ("export", "widget")


def _written(policy: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in policy.items())


_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data: blob:",
    "font-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
}
# What a page that holds everything may do beside running its own script in its own style: nothing.
_CLOSED = {
    "default-src": "'none'",
    "connect-src": "'none'",
    "img-src": "data: blob:",
    "font-src": "data:",
    "base-uri": "'none'",
    "form-action": "'none'",
}
# In a header only: browsers ignore frame-ancestors in a <meta>, and a site may be framed.
SERVER_POLICY = _written(_POLICY | {"frame-ancestors": "'none'"})
CLOSED_POLICY = _written(_CLOSED)

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_FONT = re.compile(r"(?<=url\()fonts/[\w-]+\.woff2(?=\))")
_ENDS_A_SCRIPT = re.compile(r"<(?=!--|/?script)", re.IGNORECASE)


class NotBuilt(RuntimeError):
    """The page's script is missing."""


def page(
    mode: str,
    *,
    document: dict[str, Any] | None = None,
    session: str | None = None,
    title: str = TITLE,
    catalogue: Catalogue | None = None,
    class_key: str = "",
    scorm: str = "",
    static: Path = STATIC,
) -> str:
    """index.html for one of the modes.

    `class_key` is what codes of completion are made with, `scorm` the version that a site speaks.
    """
    if mode not in MODES:
        raise ValueError(f"a page is one of {', '.join(MODES)}, not {mode!r}")
    catalogue = catalogue or Catalogue()
    boot = {
        "mode": mode,
        "version": __version__,
        "document": document,
        "session": session,
        "languages": catalogue.languages,
        **({"classKey": class_key} if class_key else {}),
        **({"scorm": scorm} if scorm else {}),
    }
    # English is part of the page: it is the fallback of every other language.
    words = catalogue.words("en") or Catalogue().words("en")
    slots = {
        "title": html.escape(title),
        "boot": data_block(boot),
        "tables": data_block(json.loads(_read(static, "tables.json"))),
        "words": data_block(words),
        "needs_script": html.escape(words.get("page.needsScript", "")),
    }
    if mode in SELF_CONTAINED:
        slots |= _inside(static)
    else:
        slots |= {
            "policy": "" if mode == "server" else _meta(_POLICY),
            "style": _preloaded(static) + '<link rel="stylesheet" href="app.css">',
            "script": _scorm(scorm) + '<script src="app.js"></script>',
        }
    template = _read(static, "index.html")
    # One pass: inserted text is not scanned for slots.
    return _SLOT.sub(lambda slot: slots[slot[1]], template)


def _scorm(version: str) -> str:
    """The script that finds a learning platform: before the page's own."""
    return f'<script src="{SCORM}" data-scorm="{version}"></script>\n' if version else ""


def data_block(data: Any) -> str:
    """JSON that is safe inside a script element: no `<`, only ASCII."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def beside(static: Path = STATIC) -> dict[str, Path]:
    """What a page that holds nothing loads from beside it, and the fonts' licences."""
    files = {name: static / name for name in ("app.js", "app.css")}
    files |= {name: static / name for name in _parts(static)}
    return files | {f"fonts/{path.name}": path for path in sorted((static / "fonts").glob("*"))}


def _parts(static: Path) -> list[str]:
    """The parts of the script that load when they are opened; `web/parts.mjs` makes them."""
    return sorted(path.name for path in static.glob("part-*.js"))


def widget_module(static: Path = STATIC) -> str:
    """The module that anywidget loads in a notebook: it puts a page into a frame."""
    return _read(static, "widget.js")


def built(static: Path = STATIC) -> bool:
    """Whether the page's script exists."""
    return (static / "app.js").is_file()


def _inside(static: Path) -> dict[str, str]:
    """Script, style and fonts as part of the page: script and style are allowed by their hashes."""
    scripts = "".join(_read(static, name) for name in [*_parts(static), "app.js"])
    # In JavaScript text \x3C equals <, but cannot end the script element.
    script = _ENDS_A_SCRIPT.sub(r"\\x3C", scripts)
    style = _FONT.sub(lambda name: _font(static, name[0]), _read(static, "app.css"))
    if "</style" in style.lower():
        raise ValueError(f"{static / 'app.css'} holds </style, which would end it")
    policy = {"script-src": _hash(script), "style-src": _hash(style)} | _CLOSED
    return {
        "policy": _meta(policy),
        "style": f"<style>{style}</style>",
        "script": f"<script>{script}</script>",
    }


def _preloaded(static: Path) -> str:
    """Fonts are asked for with the script, not after it: the page is drawn once they are there."""
    return "".join(
        f'<link rel="preload" href="{name}" as="font" type="font/woff2" crossorigin>\n'
        for name in beside(static)
        if name.endswith(".woff2")
    )


def _font(static: Path, name: str) -> str:
    return f"data:font/woff2;base64,{base64.b64encode(_bytes(static, name)).decode()}"


def _read(static: Path, name: str) -> str:
    # Normalize line ends: the hash must match what the browser reads.
    return _bytes(static, name).decode("utf-8").replace("\r\n", "\n")


def _bytes(static: Path, name: str) -> bytes:
    try:
        return (static / name).read_bytes()
    except FileNotFoundError:
        raise NotBuilt(
            f"the page is not complete: {static / name} is missing. Fix: in a checkout, "
            "`make page` (needs Node); else install gradwalk again"
        ) from None


def _meta(policy: dict[str, str]) -> str:
    return f'<meta http-equiv="Content-Security-Policy" content="{_written(policy)}">'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
