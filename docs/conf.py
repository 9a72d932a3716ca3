"""Sphinx configuration: MyST pages, and an API reference read from the docstrings."""

from __future__ import annotations

import logging as standard_logging
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parent))

import bibliography

import multikernel

logger = logging.getLogger(__name__)
# a11y_pygments, which the theme needs, turns on the messages of every logger
standard_logging.getLogger("multikernel").setLevel(standard_logging.WARNING)

project = "multikernel"
author = "The multikernel developers"
copyright = f"2026, {author}"
version = release = multikernel.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

# every example runs when the pages are built, and one that fails, fails the build
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.ExampleOrder",
    "abort_on_example_error": True,
    "plot_gallery": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
}

autosummary_generate = True
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
# types are in the docstrings too, where they say more
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False

# formulas as MathML, which browsers show without loading anything from elsewhere
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"multikernel {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]


KNOWN = bibliography.entries(bibliography.BIB.read_text(encoding="utf-8"))


def link_in_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Turn ``[KEY, eq. (n)]`` in docstrings into links to the page of references."""

    def link(match) -> str:
        key, rest = match.groups()
        return f":ref:`[{key}{rest}] <{bibliography.anchor(key)}>`" if key in KNOWN else match.group()

    paragraphs = re.split(r"(\n\s*\n)", "\n".join(lines))
    for k, paragraph in enumerate(paragraphs):
        if not paragraph.lstrip().startswith((">>>", "..")):
            # |x| and names_ mean themselves in our docstrings, substitutions and links in reStructuredText
            parts = re.split(r"(`+[^`]+`+)", paragraph)
            parts[::2] = [re.sub(r"(?<!\\)\||(?<=[^\W_])_(?!\w)", r"\\\g<0>", text) for text in parts[::2]]
            paragraphs[k] = bibliography.CITATION.sub(link, "".join(parts))
    lines[:] = "".join(paragraphs).split("\n")


def link_on_page(app, docname: str, source: list[str]) -> None:
    """The same for pages, leaving out the page of references itself and code."""

    def link(match) -> str:
        key, rest = match.groups()
        return f"[\\[{key}{rest}\\]](#{bibliography.anchor(key)})" if key in KNOWN else match.group()

    if docname != "references":
        parts = re.split(r"(^```.*?^```|`[^`\n]+`)", source[0], flags=re.MULTILINE | re.DOTALL)
        parts[::2] = [bibliography.CITATION.sub(link, text) for text in parts[::2]]
        source[0] = "".join(parts)


def skip_routing(app, what, name, obj, skip, options) -> bool | None:
    """Leave out ``set_fit_request`` and the like, which scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def write_mathml(writer, node) -> None:
    """Write a formula, inline or on its own lines, as MathML."""
    block = isinstance(node, nodes.math_block)
    # TeX takes \frac12 for a half; the converter would take 12 for the numerator
    tex = re.sub(r"(frac\s*)(\d)(\d)", r"\1{\2}{\3}", node.astext())
    try:
        formula = tex2mathml(tex, as_block=block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        formula = f"<code>{writer.encode(node.astext())}</code>"
    writer.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app) -> None:
    app.add_html_math_renderer("mathml", (write_mathml, None), (write_mathml, None))
    app.connect("autodoc-process-docstring", link_in_docstring)
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("source-read", link_on_page)
