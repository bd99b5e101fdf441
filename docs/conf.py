"""Configure Sphinx: `make docs` builds the site with warnings as errors.

Every build generates the API reference and the live studio from the installed package.
"""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import gradwalk  # noqa: E402
from gradwalk.studio.site import write_site  # noqa: E402
from tools import reference  # noqa: E402

project = "gradwalk"
author = "the gradwalk developers"
project_copyright = f"2026, {author}"
release = version = gradwalk.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
templates_path: list[str] = []
exclude_patterns: list[str] = []

# Annotations name types without a page: Python's, NumPy's and internal ones.
nitpick_ignore_regex = [("py:.*", r"(?!gradwalk\.).*")]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"gradwalk {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 9,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def write_reference(app: Any) -> None:
    """Write the pages of the API reference before Sphinx looks for pages."""
    reference.write(Path(app.srcdir) / "reference" / "api")


def write_studio(app: Any, error: Exception | None) -> None:
    """Write the studio as static files; docs/studio/live.md shows it in a frame."""
    if error is None and app.builder.format == "html":
        write_site(Path(app.outdir) / "live")


def visit_math(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML: browsers draw it, and the page loads no external script."""
    translator.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def link_names(app: Any, doctree: nodes.document, page: str) -> None:
    """Make `gradwalk.record` and `gw.record(...)` in running text links to the reference."""
    domain = app.env.get_domain("py")
    for literal in list(doctree.findall(nodes.literal)):
        named = re.match(r"(?:gw|gradwalk)\.([\w.]*\w)(\(|$)", literal.astext())
        entry = named and domain.objects.get(f"gradwalk.{named[1]}")
        if not entry or entry.docname == page or isinstance(literal.parent, nodes.reference):
            continue
        address = f"{app.builder.get_relative_uri(page, entry.docname)}#{entry.node_id}"
        link = nodes.reference("", "", literal.deepcopy(), refuri=address, internal=True)
        literal.replace_self(link)


def setup(app: Any) -> None:
    """Register the hooks; Sphinx calls this first."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("builder-inited", write_reference)
    app.connect("doctree-resolved", link_names)
    app.connect("build-finished", write_studio)
