"""HTML from nested calls, in which text is escaped unless it is HTML already."""

from __future__ import annotations

import html
from typing import Any

_EMPTY = frozenset({"meta", "link", "line", "circle", "rect", "path", "polyline", "br"})


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
    if tag in _EMPTY and not children:
        return Html(f"<{tag}{written}/>" if tag not in ("meta", "link", "br") else f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")


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


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith((".", "?", "!")))


def _text(value: Any) -> str:
    """Numbers without a tail of digits that nobody sees."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
