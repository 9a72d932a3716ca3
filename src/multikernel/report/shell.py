"""What every page has around its sections: styles, a policy that fetches nothing, a header with cards."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Any

from multikernel.io.versions import multikernel_version
from multikernel.report.markup import Html, el, sentence

# nothing may be fetched: styles are inline, and the only script is data that is not run
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def whole_page(title: str, *body: Any, style: str = "") -> str:
    """An HTML page that needs nothing but itself; ``style`` is CSS beside that of all pages."""
    common = resources.files("multikernel.report").joinpath("style.css").read_text(encoding="utf-8")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="generator", content=f"multikernel {multikernel_version()}"),
        el("title", title),
        el("link", rel="icon", href="data:,"),
        el("style", Html(common + style)),
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"


def header(kind: str, title: str, leads: Iterable[str], cards: Iterable[tuple[str, str, str]]) -> Html:
    """The top of a page: what it is, paragraphs about it, and cards with a name, a value and a detail."""
    return el(
        "header",
        el("p", f"multikernel · {kind}", class_="eyebrow"),
        el("h1", title),
        [el("p", sentence(lead), class_="lead") for lead in leads if lead],
        el("dl", [_card(*card) for card in cards], class_="cards"),
    )


def _card(name: str, value: str, detail: str) -> Html:
    return el("div", el("dt", name), el("dd", el("strong", value), el("span", detail)))
