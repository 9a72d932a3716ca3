"""HTML from nested calls, in which text is escaped unless it is HTML already; and the parts that all pages share."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from multikernel import __version__

_VOID, _SHAPES = ("meta", "link", "br", "img"), ("line", "circle", "rect", "path", "polyline")
# nothing may be fetched: styles are inline, and the only script is data that is not run
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class Html(str):
    """Text that is HTML and must not be escaped again."""

    __slots__ = ()


def el(tag: str, *children: Any, **attributes: Any) -> Html:
    """An element; ``class_`` is the attribute class, other underscores are hyphens, None leaves one out.

    Examples
    --------
    >>> from multikernel.report.markup import el
    >>> el("p", "a < b ", el("b", 3), class_="note", aria_label='"x"')
    '<p class="note" aria-label="&quot;x&quot;">a &lt; b <b>3</b></p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(_text(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}/>" if tag in _SHAPES else f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: Any) -> Html:
    """Children one after the other, text escaped, None left out, lists flattened."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, (list, tuple)):
            parts.append(join(*child))
        elif isinstance(child, Html):
            parts.append(child)
        elif child is not None:
            parts.append(html.escape(_text(child), quote=False))
    return Html("".join(parts))


def _text(value: Any) -> str:
    """Numbers without a tail of digits that nobody sees."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith((".", "?", "!")))


def section(title: str, *content: Any) -> Html:
    """A part of a page, under a heading."""
    return el("section", el("h2", title), *content)


def row(name: Any, *cells: Any, **attributes: Any) -> Html:
    """A row of a table, with a heading."""
    return el("tr", el("th", name, scope="row"), *cells, **attributes)


def table(heads: Iterable[Any], rows: Iterable[Html], *, scroll: str | None = None, **attributes: Any) -> Html:
    """A table with headings, text or ``th`` elements; ``scroll`` labels one that may be wider than the screen."""
    cells = [head if isinstance(head, Html) else el("th", head, scope="col") for head in heads]
    content = el("table", el("thead", el("tr", cells)), el("tbody", list(rows)), **attributes)
    if scroll is None:
        return content
    return el("div", content, class_="scroll", tabindex="0", role="region", aria_label=scroll)


def repeat(command: str, about: Iterable[str], versions: Mapping[str, str]) -> Html:
    """What it takes to repeat a run: what was typed, sentences about it, and versions."""
    items = [el("div", el("dt", name), el("dd", value)) for name, value in versions.items()]
    typed = el("pre", el("code", command)) if command else None
    return section("Repeat this", typed, [el("p", text) for text in about], el("dl", items, class_="versions"))


def header(kind: str, title: str, leads: Iterable[str], cards: Iterable[tuple[str, str, str]]) -> Html:
    """The top of a page: what it is, paragraphs about it, and cards with a name, a value and a detail."""
    top = [el("p", f"multikernel · {kind}", class_="eyebrow"), el("h1", title)]
    text = [el("p", sentence(lead), class_="lead") for lead in leads if lead]
    shown = [
        el("div", el("dt", name), el("dd", el("strong", value), el("span", detail))) for name, value, detail in cards
    ]
    return el("header", top, text, el("dl", shown, class_="cards"))


def whole_page(title: str, *body: Any, style: str = "") -> str:
    """An HTML page that needs nothing but itself; ``style`` is CSS beside that of all pages."""
    common = resources.files("multikernel.report").joinpath("style.css").read_text(encoding="utf-8")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="generator", content=f"multikernel {__version__}"),
        el("title", title),
        el("link", rel="icon", href="data:,"),
        el("style", Html(common + style)),
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"
